"""Maximum entropy goal-directedness (MEG): one file a measure."""

from goalmeter.meg.known import known_utility as known_utility
from goalmeter.meg.known import known_utility_many as known_utility_many
from goalmeter.meg.result import MegResult as MegResult
from goalmeter.meg.unknown import unknown_utility as unknown_utility
