"""What walks show: tables of behaviour, changed frames, keys, and what can be computed exactly."""

from goalmeter.navigation.measures.behaviour import Behaviour as Behaviour
from goalmeter.navigation.measures.behaviour import behaviour as behaviour
from goalmeter.navigation.measures.exact import exact as exact
from goalmeter.navigation.measures.factors import Contrast as Contrast
from goalmeter.navigation.measures.factors import Factors as Factors
from goalmeter.navigation.measures.factors import contrast as contrast
from goalmeter.navigation.measures.factors import factors as factors
from goalmeter.navigation.measures.factors import told_apart as told_apart
from goalmeter.navigation.measures.frames import Frames as Frames
from goalmeter.navigation.measures.frames import frames as frames
from goalmeter.navigation.measures.keys import Keys as Keys
from goalmeter.navigation.measures.keys import keys as keys
from goalmeter.navigation.measures.mixed import mixed_model as mixed_model
from goalmeter.navigation.measures.observed import Observed as Observed
from goalmeter.navigation.measures.observed import observed as observed
from goalmeter.navigation.measures.two_paths import TwoPathTable as TwoPathTable
from goalmeter.navigation.measures.two_paths import two_path_table as two_path_table
