"""A small fuzzer: valid inputs of every format, damaged, must end in a result or in one clear line.

    damage.py     what is done to bytes, text, JSON values and arrays
    formats/      a file a format: how valid inputs are written, damaged and handed to a command
    cases.py      one case: a command in a folder, and what may be wrong with how it ended
    __main__.py   many cases in one process: `python -m robustness run.json --cases 500`
    test_fuzz.py  a few of each format in `make test`; GOALMETER_FUZZ=20 for twenty times as many

To add a format, write a file in `formats` with `FORMATS = (Format(...),)`; nothing else names it.
Cases are numbered, and each has draws of its own, so that one can be run again by itself:
`PYTHONPATH=src:tests python -m robustness mdp.npz --only 17 --keep FOLDER`.
"""
