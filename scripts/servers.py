"""Judge the exports of `mm export server` by the software that reads them.

  servers.py triton DIR   parse every config.pbtxt with tritonclient's messages
  servers.py kserve FILE OUT DIR
                          check the InferenceService against the models of KServe,
                          download its storageUri to OUT and compare it with DIR
  servers.py attributes FILE
                          compare the keys and types of an InferenceService with the
                          models of the package kserve, which is not imported
  servers.py stub DIR     add a model.py to every function, which computes by ONNX
                          Runtime, and select the python backend: the tritonserver of
                          nvidia-pytriton has no other
  servers.py infer DIR HOST
                          send random inputs to each function at HOST and compare the
                          answers with ONNX Runtime on DIR
"""

import filecmp
import os
import pathlib
import re
import sys

STUB = '''import sys

sys.path[:0] = PATHS

import onnxruntime as ort
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        folder = args["model_repository"] + "/" + args["model_version"]
        self.session = ort.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])

    def execute(self, requests):
        out = []
        for r in requests:
            feeds = {i.name: pb.get_input_tensor_by_name(r, i.name).as_numpy() for i in self.session.get_inputs()}
            names = [o.name for o in self.session.get_outputs()]
            got = self.session.run(names, feeds)
            out.append(pb.InferenceResponse([pb.Tensor(n, v) for n, v in zip(names, got)]))
        return out
'''


def configs(folder):
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    for file in sorted(pathlib.Path(folder).glob("*/config.pbtxt")):
        model = text_format.Parse(file.read_text(), model_config_pb2.ModelConfig())
        if model.name != file.parent.name:
            sys.exit(f"{file}: got name {model.name}")
        yield file, model


def triton(folder):
    n = sum(1 for _ in configs(folder))
    if n == 0:
        sys.exit("no config.pbtxt")
    print(f"triton: {n} configurations parse")


def same(a, b):
    diff = filecmp.dircmp(a, b)
    if diff.left_only or diff.right_only or diff.funny_files:
        return False
    _, other, errors = filecmp.cmpfiles(a, b, diff.common_files, shallow=False)
    return not other and not errors and all(same(os.path.join(a, d), os.path.join(b, d)) for d in diff.common_dirs)


def kserve(file, out, folder):
    import yaml
    from kserve_storage import Storage

    doc = yaml.safe_load(open(file))
    uri = doc["spec"]["predictor"]["model"]["storageUri"]
    os.environ["KSERVE_OCI_INSECURE_REGISTRY"] = "true"
    Storage.download(uri, out)
    if not same(out, folder):
        sys.exit("kserve: the download differs")
    print("kserve: the download is identical")


def attributes(file):
    import ast
    import importlib.util
    import yaml

    found = importlib.util.find_spec("kserve")
    if found is None:
        print("skipped: kserve is absent")
        return
    models = pathlib.Path(found.origin).parent / "models"

    def tables(kind):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        path = models / (name + ".py")
        if not path.exists():
            return None
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name == kind:
                own = {a.targets[0].id: a.value for a in node.body if isinstance(a, ast.Assign)}
                return ast.literal_eval(own["openapi_types"]), ast.literal_eval(own["attribute_map"])

    walked = 0

    def walk(value, kind, where):
        nonlocal walked
        found = tables(kind)
        if found is None:
            if kind == "str" and not isinstance(value, str) or kind == "int" and not isinstance(value, int):
                sys.exit(f"{where}: got {value!r}, want {kind}")
            return
        types, names = found
        known = {key: types[attribute] for attribute, key in names.items()}
        for key, item in value.items():
            if key not in known:
                sys.exit(f"{where}.{key}: unknown in {kind}")
            walked += 1
            walk(item, known[key], where + "." + key)

    walk(yaml.safe_load(open(file)), "V1beta1InferenceService", "")
    print(f"kserve: {walked} attributes are known")


def stub(folder):
    for file, model in list(configs(folder)):
        if model.platform == "ensemble":
            continue
        text = file.read_text().replace('backend: "onnxruntime"', 'backend: "python"')
        file.write_text(text)
        (file.parent / "1" / "model.py").write_text(STUB.replace("PATHS", repr([p for p in sys.path if "site-packages" in p])))


def infer(folder, host):
    import numpy as np
    import onnxruntime as ort
    import tritonclient.http as http
    from tritonclient.utils import np_to_triton_dtype

    client = http.InferenceServerClient(host)
    rng = np.random.default_rng(1)
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}
    worst, n = 0.0, 0
    for _, model in configs(folder):
        if model.platform == "ensemble":
            continue
        session = ort.InferenceSession(f"{folder}/{model.name}/1/model.onnx", providers=["CPUExecutionProvider"])
        feeds, inputs = {}, []
        for i in session.get_inputs():
            shape = [d if isinstance(d, int) else 1 for d in i.shape]
            feeds[i.name] = rng.random(shape).astype(kinds[i.type])
            t = http.InferInput(i.name, shape, np_to_triton_dtype(feeds[i.name].dtype))
            t.set_data_from_numpy(feeds[i.name])
            inputs.append(t)
        got = client.infer(model.name, inputs)
        for o, want in zip(session.get_outputs(), session.run(None, feeds)):
            worst = max(worst, float(np.abs(got.as_numpy(o.name).astype(np.float64) - want.astype(np.float64)).max()))
        n += 1
    print(f"triton: {n} functions answer, largest difference {worst:g}")
    if worst > 0:
        sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not re.fullmatch("triton|kserve|attributes|stub|infer", sys.argv[1]):
        sys.exit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
