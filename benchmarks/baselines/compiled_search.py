"""The search for the best utility over states of one small world, compiled with numba.

Damped Newton steps as in `goalmeter.meg.linear`, until one gains nothing: no certificate, no
optimum at infinity, no result. Rows of the transition are compressed, row a * S + s; theta [S] are
the weights, pi and log_ratio [H, A, S] the model, occupancies [H, S].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = Any


@njit(cache=True)
def plan(rows: Array, theta: Array, pi: Array, log_ratio: Array) -> None:
    """The soft-optimal policy and its log ratio to the uniform one, in place."""
    pointers, successors, chances = rows
    horizon, n_actions, n_states = pi.shape
    value, before, logits = np.zeros(n_states), np.empty(n_states), np.empty(n_actions)
    for t in range(horizon - 1, -1, -1):
        for s in range(n_states):
            peak = -np.inf
            for a in range(n_actions):
                logits[a] = 0.0
                for k in range(pointers[a * n_states + s], pointers[a * n_states + s + 1]):
                    logits[a] += chances[k] * value[successors[k]]
                peak = max(peak, logits[a])
            total = 0.0
            for a in range(n_actions):
                pi[t, a, s] = np.exp(logits[a] - peak)
                total += pi[t, a, s]
            soft = np.log(total) + peak - np.log(n_actions)
            for a in range(n_actions):
                pi[t, a, s] /= total
                log_ratio[t, a, s] = logits[a] - soft
            before[s] = theta[s] + soft
        value[:] = before


@njit(cache=True)
def occupancy(rows: Array, pi: Array, initial: Array, states: Array) -> None:
    """The occupancy of a policy, in place."""
    pointers, successors, chances = rows
    horizon, n_actions, n_states = pi.shape
    states[:] = 0.0
    states[0] = initial
    for t in range(horizon - 1):
        for a in range(n_actions):
            for s in range(n_states):
                mass = states[t, s] * pi[t, a, s]
                if mass > 0:
                    for k in range(pointers[a * n_states + s], pointers[a * n_states + s + 1]):
                        states[t + 1, successors[k]] += mass * chances[k]


@njit(cache=True, fastmath=True)
def information(rows: Array, pi: Array, states: Array) -> Array:
    """sum_t W' L W, with W [S, S] the visits to come and L = P' C P (see `value_space`)."""
    pointers, successors, chances = rows
    horizon, n_actions, n_states = pi.shape
    visits, total = np.zeros((n_states, n_states)), np.zeros((n_states, n_states))
    spread, product = np.empty((n_states, n_states)), np.empty((n_states, n_states))
    for t in range(horizon - 1, -1, -1):
        spread[:] = 0.0
        for s in range(n_states):
            for a in range(n_actions):
                for b in range(n_actions):
                    weight = states[t, s] * pi[t, a, s] * ((a == b) - pi[t, b, s])
                    for k in range(pointers[a * n_states + s], pointers[a * n_states + s + 1]):
                        for j in range(pointers[b * n_states + s], pointers[b * n_states + s + 1]):
                            spread[successors[k], successors[j]] += weight * chances[k] * chances[j]
        product[:] = 0.0
        for i in range(n_states):
            for j in range(n_states):
                if spread[i, j] != 0.0:
                    for k in range(n_states):
                        product[i, k] += spread[i, j] * visits[j, k]
        total += np.dot(visits.T, product)
        product[:] = 0.0
        for s in range(n_states):
            for a in range(n_actions):
                for k in range(pointers[a * n_states + s], pointers[a * n_states + s + 1]):
                    weight = pi[t, a, s] * chances[k]
                    for j in range(n_states):
                        product[s, j] += weight * visits[successors[k], j]
            product[s, s] += 1.0
        visits[:] = product
    return total


@njit(cache=True)
def best_evidence(rows: Array, policy: Array, initial: Array) -> float:
    """The evidence of the best utility for a policy [H, A, S], nats; for finite optima."""
    horizon, _, n_states = policy.shape
    pi, log_ratio = np.empty_like(policy), np.empty_like(policy)
    trial, trial_ratio = np.empty_like(policy), np.empty_like(policy)
    visited, states = np.empty((horizon, n_states)), np.empty((horizon, n_states))
    occupancy(rows, policy, initial, visited)
    weights = policy * visited.reshape(horizon, 1, n_states)
    target, theta, damping, gain = visited.sum(axis=0), np.zeros(n_states), 1.0, np.inf
    plan(rows, theta, pi, log_ratio)
    value = (weights * log_ratio).sum()
    for _ in range(60):
        occupancy(rows, pi, initial, states)
        gradient = target - states.sum(axis=0)
        counted = 0.5 * (states + visited) if gain > 0.3 else states
        matrix = information(rows, pi, counted)
        unit = np.zeros(n_states)
        for i in range(n_states):
            if matrix[i, i] > 1e-20:
                unit[i] = 1.0 / np.sqrt(matrix[i, i])
        matrix = matrix * unit.reshape(-1, 1) * unit
        gained = False
        while damping < 1e12:
            damped = matrix + max(damping, 1e-12) * np.eye(n_states)
            step = unit * np.linalg.solve(damped, unit * gradient)
            promised = np.dot(gradient, step)
            plan(rows, theta + step, trial, trial_ratio)
            reached = (weights * trial_ratio).sum()
            gained = reached - value > 0.1 * promised and promised > 0
            if gained:
                break
            damping = 4.0 * max(damping, 1e-10)
        if not gained:
            break
        gain, value, theta = reached - value, reached, theta + step
        damping = max(damping * (0.1 if gain > 0.4 * promised else 0.5), 1e-14)
        pi, trial = trial, pi
        if gain <= 1e-14:
            break
    return value
