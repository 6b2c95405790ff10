"""
MEG in a simulator: two intervals
=================================

Without a table of transitions MEG is estimated from steps. goalmeter gives two intervals. One is
asymptotic: narrow, and justified by measured coverage. The other is a guarantee: wide, and proven
for any number of steps. How do both shrink, and do they contain the truth?
"""

# %%
# The truth can be computed here. The simulator is FrozenLake, a lake of 16 cells on which every
# move slips. goalmeter only uses ``reset`` and ``step``; the table is used for the comparison
# alone.
import matplotlib.pyplot as plt
import numpy as np

import goalmeter as gm

HORIZON, BUDGETS = 20, [2_000, 10_000, 50_000, 250_000]
table = gm.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=HORIZON)
policy = gm.epsilon_greedy(gm.optimal_policy(table), 0.1)
truth = gm.meg.known_utility(table, policy)
print(f"exact MEG {truth.value:.4f} nats of {truth.maximum:.2f}")

# %%
# The agent takes another action than the best one in 10% of its steps. Measure it with more and
# more simulator steps:
results = []
for budget in BUDGETS:
    result = gm.meg.from_simulator(
        "FrozenLake-v1",
        policy,
        horizon=HORIZON,
        budget=budget,
        guarantee=True,
        bounds=(0, 1, 0, 1),
        progress=False,
    )
    results.append(result)
    (low, high), (lowest, highest) = result.interval, result.guaranteed
    print(
        f"{budget:7} steps: {result.value:.3f} nats, interval [{low:.3f}, {high:.3f}], "
        f"guaranteed [{lowest:.3f}, {highest:.3f}]"
    )

# %%
# Both intervals assume what the caller declares, which no number of steps can prove:
print(results[-1].assumes)

# %%
# The control is an agent without a goal. Its exact MEG is 0, and an interval that excluded 0 would
# refute the method:
aimless = gm.meg.from_simulator(
    "FrozenLake-v1", gm.uniform_policy(table), horizon=HORIZON, budget=10_000, progress=False
)
print(f"uniform policy: {aimless.value:.4f} nats {aimless.interval}")

# %%
# The figure shows how both intervals shrink. One run per budget cannot show coverage, which is the
# share of many runs whose interval contains the truth; it is measured in the benchmarks.
figure, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
values = np.array([result.value for result in results])
kinds = {
    "guaranteed": ([result.guaranteed for result in results], 1.08),
    "asymptotic": ([result.interval for result in results], 0.92),
}
for name, (ends, shift) in kinds.items():
    low, high = np.array(ends).T
    at = np.array(BUDGETS) * shift
    axes.vlines(at, low, high, linewidth=3, color="C1" if shift > 1 else "C0", label=name)
axes.plot(np.array(BUDGETS) * 0.92, values, "o", color="C0", label="estimate")
axes.axhline(truth.value, color="0.5", linestyle="--", label="exact")
axes.set(title="Both intervals against the number of steps", xscale="log")
axes.set(xlabel="simulator steps", ylabel="MEG, nats")
axes.legend()
plt.show()
