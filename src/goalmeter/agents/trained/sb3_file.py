"""A policy that Stable-Baselines3 saved, read without unpickling anything.

The archive that `model.save` writes holds the weights (`policy.pth`) and a JSON file (`data`) in
which whatever is no plain value is a pickle, in base64. The library's own `load` unpickles those,
which runs any code that the file's author put there. Beside each pickle the library writes what
the object held, as text: the module and the methods of a class, the size of a space. That is
enough to know the policy's class, its spaces and its layers, so the policy is built anew from
these texts, from a list of known classes, and its weights are read by `torch.load(...,
weights_only=True)`. A class of the user's own is therefore refused.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._archives import check_sizes, listed
from goalmeter._errors import InvalidFileError, require
from goalmeter._files import reading
from goalmeter._text import in_a_line
from goalmeter._types import AnyArray, FloatArray
from goalmeter.agents.learners.global_generators import borrowed_generators

_FEATURE = "A policy of Stable-Baselines3"
DATA, WEIGHTS = "data", "policy.pth"
_POLICIES = {
    ("stable_baselines3.common.policies", "ActorCriticPolicy"),
    ("stable_baselines3.dqn.policies", "DQNPolicy"),
}
_ALGORITHMS = "PPO, A2C or DQN of Stable-Baselines3 with its MlpPolicy"
# Settings of a policy that decide what its network computes, and are plain values.
_PLAIN = ("net_arch", "normalize_images", "share_features_extractor")
# Settings that decide how it learns, or what continuous actions it takes, and nothing here.
_NO_MATTER = frozenset(
    {"optimizer_class", "optimizer_kwargs", "ortho_init", "log_std_init", "full_std", "use_expln"}
    | {"squash_output", "use_sde", "n_critics", "features_extractor_kwargs"}
)
# A network larger than these is none that somebody trained; it would fill the memory.
_MOST_LAYERS, _MOST_WIDTH = 64, 1_000_000
_CLASS = re.compile(r"<class '([\w.]+)'>")
_METHOD = re.compile(r"<function (\w+)\.__init__ at ")
_FLATTEN = "stable_baselines3.common.torch_layers.FlattenExtractor"


@dataclass(frozen=True)
class Observations:
    """What a policy sees: one of so many observations, or a flat array; the other is None.

    Attributes:
        count: how many observations there are.
        length: of an array.
    """

    count: int | None
    length: int | None = None


@dataclass(frozen=True, eq=False)
class SavedPolicy:
    """A policy in an archive of Stable-Baselines3; torch is imported when it is first asked.

    Attributes:
        path: of the archive.
        observations: what it sees.
        n_actions: it chooses one of so many.
        greedy: whether it is a Q-network, which takes the action of the largest value.
        settings: of the policy's class.
    """

    path: str
    observations: Observations
    n_actions: int
    greedy: bool
    settings: Mapping[str, Any]

    def probabilities(self, observations: AnyArray) -> FloatArray:
        """The distribution over actions at each of some observations, [N, A].

        Args:
            observations: [N] numbers, or [N, length] arrays.
        """
        torch = require("torch", extra="sb3", feature=_FEATURE)
        policy = self._policy
        # In one thread, as every learner here computes: the last bits of a sum do not differ then.
        with borrowed_generators(), torch.no_grad():
            seen, _ = policy.obs_to_tensor(observations)
            if self.greedy:
                best = policy.q_net(seen).argmax(dim=1).numpy()  # the lowest of equals
                return np.asarray(np.eye(self.n_actions)[best])
            chances = policy.get_distribution(seen).distribution.probs
        out = np.asarray(chances.numpy(), dtype=np.float64)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    @cached_property
    def _policy(self) -> Any:
        """The library's policy with the saved weights, on the processor."""
        require("stable_baselines3", extra="sb3", feature=_FEATURE)
        torch = require("torch", extra="sb3", feature=_FEATURE)
        from gymnasium import spaces
        from stable_baselines3.common.policies import ActorCriticPolicy
        from stable_baselines3.dqn.policies import DQNPolicy

        seen = self.observations
        space: Any
        if seen.count is not None:
            space = spaces.Discrete(seen.count)
        else:
            assert seen.length is not None, "observations are counted or have a length"
            # The bounds say nothing to a network that sees a flat array.
            space = spaces.Box(-np.inf, np.inf, (seen.length,), np.float32)
        settings = dict(self.settings)
        if "activation_fn" in settings:
            settings["activation_fn"] = getattr(torch.nn, settings["activation_fn"])
        build = DQNPolicy if self.greedy else ActorCriticPolicy
        # The first weights are drawn, and replaced below; nobody else's draws may change by that.
        with borrowed_generators():
            policy = build(space, spaces.Discrete(self.n_actions), lambda _: 0.0, **settings)
        with zipfile.ZipFile(self.path) as archive:
            weights = BytesIO(archive.read(WEIGHTS))
        try:
            policy.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # A damaged or hostile file raises whatever torch's reader stumbles over.
        except Exception as cause:
            raise InvalidFileError(
                f"{self.path}: {WEIGHTS} does not hold the weights of this policy: "
                f"{in_a_line(cause)[:300]}; save the model again"
            ) from cause
        policy.set_training_mode(False)
        return policy


def read_policy(path: str | Path) -> SavedPolicy:
    """What an archive of Stable-Baselines3 says of its policy; the weights are left for later."""
    data = _data(Path(path))
    kind = _kind(data.get("policy_class"), path)
    return SavedPolicy(
        str(path),
        _observations(data.get("observation_space"), path),
        _discrete(data.get("action_space"), "actions", path),
        greedy=kind == "DQNPolicy",
        settings=_settings(data.get("policy_kwargs"), path),
    )


def _data(path: Path) -> dict[str, Any]:
    try:
        with reading(path) as file:
            entries = {entry.filename: entry for entry in listed(file)}
            if missing := [name for name in (DATA, WEIGHTS) if name not in entries]:
                raise InvalidFileError(f"it holds no {missing[0]!r}")
            check_sizes([entries[DATA], entries[WEIGHTS]])
            with zipfile.ZipFile(file) as archive:
                data = json.loads(archive.read(DATA))
    except FileNotFoundError as cause:
        raise InvalidFileError(
            f"there is no file {path}; a trained policy is named sb3:PATH.zip"
        ) from cause
    except InvalidFileError as cause:
        raise _no_policy(path, str(cause)) from cause
    # Half a file, one that is no JSON, or JSON that is nested without end.
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile) as cause:
        raise _no_policy(path, in_a_line(cause)) from cause
    if not isinstance(data, dict):
        raise _no_policy(path, f"{DATA!r} is no JSON object")
    return data


def _kind(described: Any, path: str | Path) -> str:
    """The name of the policy's class, which must be one of the library's own."""
    told = described if isinstance(described, dict) else {}
    method = _METHOD.match(str(told.get("__init__")))
    module, name = str(told.get("__module__")), method[1] if method else "?"
    if (module, name) not in _POLICIES:
        raise _no_policy(path, f"its policy is {module}.{name}")
    return name


def _settings(described: Any, path: str | Path) -> dict[str, Any]:
    """Settings that the policy was made with, as far as they decide what it computes."""
    options = described if isinstance(described, dict) else {}
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(":") or name in _NO_MATTER:
            continue
        if name == "activation_fn" and (activation := _activation(value)):
            settings[name] = activation
        elif name in _PLAIN and _is_plain(value):
            settings[name] = value
        elif name != "features_extractor_class" or _CLASS.fullmatch(str(value)) is None:
            raise _no_policy(path, f"its policy was made with {name}={value!r}")
        elif _CLASS.fullmatch(str(value))[1] != _FLATTEN:  # type: ignore[index]
            raise _no_policy(path, f"it looks through {value}")
    return settings


def _is_plain(value: Any) -> bool:
    """Whether a setting is a switch, or the sizes of layers that a network can have."""
    if isinstance(value, list):
        return len(value) <= _MOST_LAYERS and all(map(_is_plain, value))
    if isinstance(value, dict):
        return value.keys() <= {"pi", "vf"} and all(map(_is_plain, value.values()))
    return isinstance(value, bool) or _is_width(value)


def _is_width(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MOST_WIDTH


def _activation(value: Any) -> str | None:
    """The name of one of torch's own activations."""
    named = _CLASS.fullmatch(str(value))
    module, _, name = named[1].rpartition(".") if named else ("", "", "")
    return name if module == "torch.nn.modules.activation" else None


def _observations(described: Any, path: str | Path) -> Observations:
    told = described if isinstance(described, dict) else {}
    match _space(told):
        case "Discrete":
            return Observations(_discrete(told, "observations", path))
        case "Box":
            # An array of three axes may be a picture, whose bounds decide how it is scaled.
            shape = told.get("_shape")
            if isinstance(shape, list) and len(shape) == 1 and _is_width(shape[0]):
                return Observations(None, shape[0])
    raise _no_policy(path, f"it sees {_space(told) or 'nothing known'}, not Discrete or a flat Box")


def _discrete(described: Any, counted: str, path: str | Path) -> int:
    told = described if isinstance(described, dict) else {}
    count = str(told.get("n"))
    usual = str(told.get("start", "0")) == "0"
    if _space(told) != "Discrete" or not re.fullmatch(r"[1-9]\d{0,6}", count) or not usual:
        raise _no_policy(
            path, f"its {counted} are {_space(told) or 'nothing known'}, not Discrete(n)"
        )
    return int(count)


def _space(told: Mapping[str, Any]) -> str:
    named = _CLASS.fullmatch(str(told.get(":type:")))
    return named[1].rpartition(".")[2] if named else ""


def _no_policy(path: str | Path, why: str) -> InvalidFileError:
    return InvalidFileError(
        f"{path} holds no policy that can be read ({why}); expected what model.save writes for "
        f"{_ALGORITHMS}, with observations that are Discrete or a flat Box and actions that are "
        f"Discrete; goalmeter.meg.from_simulator takes any other model as its load gives it"
    )
