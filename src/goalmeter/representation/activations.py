"""Capture the residual stream of recorded decisions and store it in folders.

manifest.json               description of the capture, model and kernels; SHA-256 of each shard
shard-00000.safetensors     arrays "L/NAME" for each layer L and position NAME, [rows, tokens, D],
                            and "tokens/NAME", the ids of these tokens, [rows, tokens]

The header of a shard lists its rows: walk, step, digest of the replayed tokens, and the positions
that the decision lacks. This identifies row i with decision i independently of other files. A shard
whose checksum has changed is refused when the folder is opened. Shards are written atomically; an
interrupted capture resumes after the last one.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, require, shown
from goalmeter._files import digest, read_bytes, write_bytes, write_text
from goalmeter._types import FloatArray, IntArray
from goalmeter.report.numbers import storage
from goalmeter.representation import replay
from goalmeter.representation.network import Network
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.replay import Sample, Tokens, scenes_of
from goalmeter.representation.scenes import Scenes
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

# --- Storage --------------------------------------------------------------------------------------
MANIFEST, FORMAT = "manifest.json", 2  # format 1 had no checksums
ROWS_OF_A_SHARD = 256
_FEATURE = "Storing activations"
_MOST_BYTES = 2**24  # maximum size of a manifest, which has about 100 bytes per shard
_MOST_SHARDS = 99_999  # names have five digits
_KINDS = {"format": int, "shards": int, "rows": int, "layers": list} | dict.fromkeys(
    ("positions", "sha256"), dict
)
# Bytes of an array's entry in the header of a shard (maximum), and of a token id.
_ENTRY, _ID = 150, 4


class DecisionRow(NamedTuple):
    """Decision to which a row of activations belongs."""

    walk: str
    step: int
    digest: str  # digest of the replayed tokens
    lacks: tuple[str, ...] = ()  # positions that the decision lacks; their activations are NaN


@dataclass(frozen=True)
class Activations:
    """Folder of activations with its manifest; arrays are read from disk on demand."""

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Activations:
        """Open a folder of activations and verify the checksum of each shard."""
        folder = Path(folder)
        activations = cls(folder, read_manifest(folder))
        for path in sorted(folder.glob("shard-*.safetensors")):
            if digest(path) != activations.manifest["sha256"].get(path.name):
                raise InvalidFileError(
                    f"{path} is corrupt: its SHA-256 differs from that in {MANIFEST}; delete this "
                    f"file and capture again, which recomputes only this shard"
                )
        return activations

    @cached_property
    def rows(self) -> tuple[DecisionRow, ...]:
        """Decision of each row, [N]."""
        return tuple(row for shard in self._shards for row in _read_rows(shard))

    def at(self, layer: int, position: str) -> FloatArray:
        """Return the residual stream, float32 [N, tokens, D]; NaN if a decision lacks it."""
        for kind, value in (("layers", layer), ("positions", position)):
            if value not in self.manifest[kind]:
                raise InvalidParameterError(
                    f"{self.folder} has no activations at {kind[:-1]} {value!r}, expected one of "
                    f"{', '.join(map(str, self.manifest[kind]))}; capture it as well"
                )
        return np.asarray(self._array(f"{layer}/{position}"), dtype=np.float32)

    def tokens(self, position: str) -> IntArray:
        """Return the ids of the tokens at a position, [N, tokens]; -1 if a decision lacks it."""
        return np.asarray(self._array(f"tokens/{position}"), dtype=int)

    def _array(self, name: str) -> Any:
        import torch

        parts = []
        for path in self._shards:
            with _opened(path) as shard:
                tensor = shard.get_tensor(name)
            # NumPy lacks bfloat16.
            parts.append((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())
        return np.concatenate(parts)

    @cached_property
    def _shards(self) -> list[Path]:
        paths = [_shard_path(self.folder, n) for n in range(self.manifest["shards"])]
        if lacks := [path.name for path in paths if not path.is_file()]:
            raise InvalidFileError(
                f"{self.folder} lacks {len(lacks)} of {len(paths)} shards, such as {lacks[0]}; "
                f"capture again, which computes only these"
            )
        return paths


@dataclass(frozen=True, eq=False)
class Shard:
    """Subset of the decisions with the indices of the tokens whose activations are stored."""

    number: int
    samples: Sequence[Sample]  # [N]
    places: Sequence[Mapping[str, Tokens]]  # indices of replayed tokens by position, [N]
    widths: Mapping[str, int]  # number of tokens of each position, the same in all shards

    def size(self, layers: Sequence[int], network: Network) -> int:
        """Return an upper bound of its size on disk in bytes."""
        token = len(layers) * network.width * int(network.local.model.dtype.itemsize) + _ID
        header = len(json_text(self.rows)) + _ENTRY * (len(layers) + 1) * len(self.widths)
        return len(self.samples) * sum(self.widths.values()) * token + header

    @property
    def rows(self) -> tuple[DecisionRow, ...]:
        """Rows listed in the header."""
        lacks = (tuple(name for name, found in at.items() if not found) for at in self.places)
        return tuple(
            DecisionRow(each.walk, each.step, each.digest, names)
            for each, names in zip(self.samples, lacks, strict=True)
        )

    def write(self, folder: Path, arrays: Mapping[str, torch.Tensor]) -> None:
        """Write activations and tokens atomically, and the checksum to the manifest."""
        import torch

        named = dict(arrays)
        for name, width in self.widths.items():
            rows = zip(self.samples, self.places, strict=True)
            ids = [[each.ids[token] for token in at[name]] or [-1] * width for each, at in rows]
            named[f"tokens/{name}"] = torch.tensor(ids, dtype=torch.int32)
        torch_files = require("safetensors.torch", extra="lm", feature=_FEATURE)
        data = torch_files.save(named, metadata={"rows": json_text(self.rows)})
        path, manifest = _shard_path(folder, self.number), read_manifest(folder)
        manifest["sha256"] |= {path.name: hashlib.sha256(data).hexdigest()}
        # The manifest comes first, so that an interruption leaves no shard without a checksum.
        _write_manifest(folder, manifest)
        write_bytes(path, data)


def shards_of(samples: Sequence[Sample], tokenizer: Any, positions: Sequence[str]) -> list[Shard]:
    """Locate the tokens of positions in decisions, and divide the decisions into shards."""
    finders = {name: replay.position(name) for name in replay.checked_positions(positions)}
    located = (replay.Located(sample, tokenizer) for sample in samples)
    places = [{name: find(each) for name, find in finders.items()} for each in located]
    widths = {}
    for name in finders:
        lengths = {len(at[name]) for at in places} - {0}
        if not lengths:
            raise InvalidParameterError(
                f"none of {len(places)} decisions has the position {name!r}; choose another one or "
                f"record answers with reasoning"
            )
        widths[name] = min(lengths)
    # A cell may have two tokens in one row and three in another. The last ones are stored because
    # a later token attends to earlier ones.
    cut = [{name: at[name][-width:] for name, width in widths.items()} for at in places]
    parts = [slice(n, n + ROWS_OF_A_SHARD) for n in range(0, len(samples), ROWS_OF_A_SHARD)]
    return [Shard(n, samples[part], cut[part], widths) for n, part in enumerate(parts)]


def missing(shards: Sequence[Shard], folder: Path) -> list[Shard]:
    """Return the shards that a folder does not have."""
    return [shard for shard in shards if not _shard_path(folder, shard.number).is_file()]


def _shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05}.safetensors"


def _check_same_capture(folder: Path, manifest: Mapping[str, Any], shards: Sequence[Shard]) -> None:
    """Refuse a folder that contains another capture or corrupt shards of this one."""
    if not (folder / MANIFEST).is_file():
        return
    stored = Activations.open(folder).manifest
    for name, value in manifest.items():
        if stored.get(name) != value:
            raise InvalidFileError(
                f"{folder} contains a capture whose {name} is {stored.get(name)!r}, expected "
                f"{value!r}; choose another folder"
            )
    lacking = missing(shards, folder)
    for shard in (shard for shard in shards if shard not in lacking):
        path = _shard_path(folder, shard.number)
        if _read_rows(path) != shard.rows:
            raise InvalidFileError(
                f"{path} contains decisions of another run; choose another folder"
            )


def _read_rows(path: Path) -> tuple[DecisionRow, ...]:
    with _opened(path) as shard:
        rows = json.loads(shard.metadata()["rows"])
    return tuple(DecisionRow(walk, step, of, tuple(lacks)) for walk, step, of, lacks in rows)


def _opened(path: Path) -> Any:
    """Open a shard as a memory map, which reads only the requested arrays."""
    return require("safetensors", extra="lm", feature=_FEATURE).safe_open(path, framework="pt")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder of activations."""
    path = folder / MANIFEST
    try:
        value = dict(json.loads(read_bytes(path, _MOST_BYTES)))
    except (OSError, ValueError, TypeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} contains no activations: {MANIFEST} cannot be read ({type(cause).__name__})"
        ) from cause
    for name, kind in _KINDS.items():
        entry: Any = value.get(name)
        fits = type(entry) is kind and (name != "format" or entry == FORMAT)
        if not fits or (name == "shards" and not 0 <= entry <= _MOST_SHARDS):
            raise InvalidFileError(
                f"{path} is not a manifest of activations of this version: its {name} is "
                f"{shown(entry)}; delete the folder and capture again"
            )
    return value


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


# --- Capture --------------------------------------------------------------------------------------
BATCH_TOKENS = 8192  # padding included
# Largest root mean square of the difference between a row in a batch and the same row alone,
# relative to that of the row. It allows for rounding (0.04 for 8 billion random bfloat16 weights on
# an H200, where single numbers differ by 0.2); a row that attends to padding differs by about 1.
_TOLERANCE = {"float32": 1e-3, "float64": 1e-6, "bfloat16": 0.1, "float16": 0.05}


def capture(
    samples: Sequence[Sample],
    network: Network,
    folder: str | Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    later: Mapping[Path, Sequence[int]] | None = None,
    progress: Tell | None = None,
) -> Activations:
    """Capture the residual stream of decisions at layers and positions into a folder.

    An interrupted capture in the folder is resumed, a different one is refused. Layer 0 is the
    embedding, layer k the output of block k; for names of positions see `replay.position`. `later`
    has the layers of later captures of these decisions by folder; the disk must have room for all.
    """
    tell = progress or (lambda line: None)
    folder, chosen = Path(folder), network.check_layers(layers)
    shards = shards_of(samples, network.local.tokenizer, positions)
    manifest = {
        "format": FORMAT,
        "model": network.name,
        "revision": network.revision,
        "layers": list(chosen),
        "width": network.width,
        **network.pinned,
        "positions": dict(shards[0].widths),
        "rows": len(samples),
        "shards": len(shards),
    }
    _check_same_capture(folder, manifest, shards)
    # A complete capture needs no space; later captures check theirs when they begin.
    if missing(shards, folder):
        need = 0
        for path, at in {folder: chosen, **(later or {})}.items():
            need += sum(shard.size(at, network) for shard in missing(shards, path))
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(existing).free
        tell(f"activations: need {storage(need)} on disk, {storage(free)} free")
        if need > free:
            raise InvalidFileError(
                f"the activations need {storage(need)}, but {existing} has {storage(free)} free, "
                f"{storage(need - free)} too little; choose fewer layers or positions, or another "
                f"disk"
            )
    if not (folder / MANIFEST).is_file():
        padding = padding_difference(network, samples, chosen)
        _write_manifest(folder, manifest | {"padded_against_single": padding, "sha256": {}})
    for shard in missing(shards, folder):
        shard.write(folder, _streams(network, shard, chosen))
        ready = sum(len(each.samples) for each in shards[: shard.number + 1])
        tell(f"activations: {ready} of {len(samples)} decisions")
    # Existing shards were verified above; the others are new.
    return Activations(folder, read_manifest(folder))


def batches(samples: Sequence[Sample]) -> list[list[int]]:
    """Group rows of similar length, so that batches contain little padding."""
    out: list[list[int]] = []
    for row in sorted(range(len(samples)), key=lambda row: len(samples[row].ids)):
        # Rows are sorted by length, so the last row of a batch is the longest.
        if out and (len(out[-1]) + 1) * len(samples[row].ids) <= BATCH_TOKENS:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def padding_difference(network: Network, samples: Sequence[Sample], layers: Sequence[int]) -> float:
    """Return the relative difference between rows of a batch and the same rows alone."""
    # The shortest sample with the longest has the most padding.
    by_length = sorted(samples, key=lambda sample: len(sample.ids))
    pair = [by_length[0], by_length[-1]]
    for sample in pair:
        _check_finite(network, sample)
    streams: list[torch.Tensor] = []
    length = len(pair[0].ids)
    with network.changed({layers[-1]: lambda rows: streams.append(rows[0, :length].float())}):
        network.forward([sample.ids for sample in pair])
        network.forward([pair[0].ids])
    together, single = streams
    size = single.square().mean().sqrt()
    difference = float((together - single).square().mean().sqrt() / size)
    most = _TOLERANCE.get(network.pinned["dtype"], 0.1)
    if not difference <= most:
        raise InvalidFileError(
            f"activations of {network.name} for a row in a batch differ from those of the same row "
            f"alone (by {difference:.2g} of their size, expected at most {most:g}), so it attends "
            f"to padding; capture with another attention implementation or dtype"
        )
    return difference


def _streams(network: Network, shard: Shard, layers: Sequence[int]) -> dict[str, torch.Tensor]:
    """Return the residual stream at each layer and position; NaN if a row lacks the position."""
    import torch

    arrays = {}
    for layer, (name, width) in product(layers, shard.widths.items()):
        shape = (len(shard.samples), width, network.width)
        arrays[f"{layer}/{name}"] = torch.full(shape, torch.nan, dtype=network.local.model.dtype)
    for batch in batches(shard.samples):
        # By position: rows that have it, their numbers in the batch, and their tokens.
        found = {}
        for name in shard.widths:
            if has := [number for number, row in enumerate(batch) if shard.places[row][name]]:
                rows = [batch[number] for number in has]
                tokens = torch.tensor([shard.places[row][name] for row in rows])
                found[name] = rows, torch.tensor(has)[:, None], tokens

        def store(layer: int, stream: torch.Tensor, found: Any = found) -> None:
            for name, (rows, numbers, tokens) in found.items():
                # One copy for all rows: each copy synchronises with the accelerator.
                arrays[f"{layer}/{name}"][rows] = stream[numbers, tokens].cpu()

        with network.changed({layer: partial(store, layer) for layer in layers}):
            network.forward([shard.samples[row].ids for row in batch])
        for layer, (name, (rows, *_)) in product(layers, found.items()):
            finite = torch.isfinite(arrays[f"{layer}/{name}"][rows]).flatten(1).all(dim=1)
            if not finite.all():
                sample = shard.samples[rows[int(finite.int().argmin())]]
                _check_finite(network, sample)
                raise InvalidFileError(
                    f"activations of {network.name} are not finite for step {sample.step} of "
                    f"{sample.walk!r}, but only in a batch; capture with another attention "
                    f"implementation or dtype"
                )
    return arrays


def _check_finite(network: Network, sample: Sample) -> None:
    """Refuse a decision whose residual stream is not finite."""
    import torch

    streams = network.streams(sample.ids, range(len(network.blocks) + 1))
    for layer, stream in sorted(streams.items()):
        if not torch.isfinite(stream).all():
            raise InvalidFileError(
                f"activations of {network.name} are not finite, first at layer {layer}, for step "
                f"{sample.step} of {sample.walk!r}: its weights are corrupt, or they overflow in "
                f"{network.pinned['dtype']}; load an intact copy, or save it in another dtype"
            )


# --- Controls -------------------------------------------------------------------------------------
# A probe on a network with random weights measures information that the architecture propagates
# without training; a probe on the embeddings of the same tokens measures information of the tokens
# without context. A gain beyond both is due to the model's processing of the prompt.
#
# Source: random encoders as controls in Belinkov (2022, "Probing Classifiers", section 4.1) and
# Zhang and Bowman (2018).
RANDOM_WEIGHTS, EMBEDDINGS = "random weights", "embeddings alone"


def untrained(network: Network, *, seed: int) -> Network:
    """Return a network of the same configuration with freshly initialised weights.

    Tokenizer, dtype, device and kernels are those of the trained network, which is not changed;
    the state of torch's random generator is restored.
    """
    torch = require("torch", extra="lm", feature="A network with random weights")
    transformers = require("transformers", extra="lm", feature="A network with random weights")
    trained = network.local.model
    config = copy.deepcopy(trained.config)
    # torch.manual_seed would seed every device; weights are drawn on the CPU.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=config._attn_implementation
        )
    model.to(trained.device).eval()
    model.generation_config = copy.deepcopy(trained.generation_config)
    local = copy.copy(network.local)
    local.model = model
    return Network(f"{network.name} with random weights (seed {seed})", local)


def alternatives_of(
    activations: Activations,
    layer: int,
    position: str,
    *,
    random: Activations | None = None,
    rows: IntArray | None = None,
) -> dict[str, FloatArray]:
    """Return control activations of the same decisions and tokens: the `alternatives` of `compare`.

    `activations` must include layer 0 (the embedding); in models that add positions to token
    embeddings (GPT-2), it contains positions. `random` are the activations of a network with random
    weights, and `rows` the numbers of decisions (None for all). Returns arrays [rows, tokens * D]
    by name.
    """
    sources = {EMBEDDINGS: activations.at(0, position)}
    if random is not None:
        ours, theirs = ([row.digest for row in each.rows] for each in (activations, random))
        if ours != theirs:
            raise InvalidParameterError(
                f"{random.folder} contains {len(theirs)} decisions, {activations.folder} contains "
                f"{len(ours)}, and their tokens or order differ; capture the same decisions with "
                f"the network of random weights"
            )
        sources[RANDOM_WEIGHTS] = random.at(layer, position)
    chosen = np.arange(len(activations.rows)) if rows is None else rows
    return {name: source[chosen].reshape(len(chosen), -1) for name, source in sources.items()}


@dataclass(frozen=True)
class Captured:
    """Activations of the decisions of a run, for the model and for random weights."""

    samples: tuple[Sample, ...]  # decisions, [N]
    scenes: Scenes  # their scenes, [N]
    trained: Activations  # activations of the model
    random: Callable[[], Activations]  # those of the same architecture with random weights
    rows: IntArray  # numbers of the decisions that have every position

    def reading(self, layer: int, position: str) -> Reading:
        """Return activations at a place, tokens concatenated, for decisions with all positions."""
        rows = self.trained.at(layer, position)[self.rows]
        return Reading(rows.reshape(len(rows), -1), self.scenes.where(self.rows))

    def alternatives(self, layer: int, position: str) -> dict[str, FloatArray]:
        """Return activations of controls at a place, by name."""
        return alternatives_of(self.trained, layer, position, random=self.random(), rows=self.rows)


# Folders of activations in the folder of a probe.
TRAINED_FOLDER, RANDOM_FOLDER = "activations", "random-weights"


def captured(
    samples: tuple[Sample, ...],
    network: Network,
    folder: Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    seed: int,
    tell: Tell,
) -> Captured:
    """Capture all decisions with the model and, on first use, with random weights."""
    of_random = folder / RANDOM_FOLDER
    capture_all = partial(capture, samples, positions=positions, progress=tell)
    trained = capture_all(
        network, folder / TRAINED_FOLDER, layers=[0, *layers], later={of_random: layers}
    )

    @cache
    def replay_random() -> Activations:
        # The network is built and hashed (seconds) even if all its activations are stored.
        return capture_all(untrained(network, seed=seed), of_random, layers=layers)

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer positions"
        )
    rows = np.flatnonzero(complete)
    return Captured(samples, scenes_of(samples), trained, replay_random, rows)
