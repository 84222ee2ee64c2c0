# Writes and reads files with the reference library.
#
#   python reference.py write FILE    writes the tensors that the test knows
#   python reference.py read FILE     prints what FILE holds, one line a tensor
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

mode, path = sys.argv[1:]
if mode == "write":
    save_file(
        {
            "w": numpy.arange(12, dtype=numpy.float32).reshape(3, 4),
            "half": numpy.array([1.5, -2], dtype=numpy.float16),
            "ids": numpy.array([[7, -7]], dtype=numpy.int64),
            "flag": numpy.array([True, False, True]),
            "empty": numpy.zeros((0, 5), dtype=numpy.uint8),
            "scalar": numpy.array(3.25, dtype=numpy.float64),
        },
        path,
        metadata={"format": "np", 'quote " ä <': "line\nbreak"},
    )
else:
    with safe_open(path, framework="numpy") as f:
        print(sorted((f.metadata() or {}).items()))
        for name in sorted(f.keys()):
            t = f.get_tensor(name)
            print(name, t.dtype, list(t.shape), t.tobytes().hex())
