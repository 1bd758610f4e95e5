"""Twelve layers of 64 x 512 by 512 x 512 in ONNX Runtime, with weights that are drawn. Its threads are its own."""

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import victim

given = victim.options(spinning=1)
random = numpy.random.default_rng(1)
LAYERS, ROWS, WIDTH = 12, 64, 512


def model():
    """A product and a ReLU, again and again."""
    nodes, weights = [], []
    for i in range(LAYERS):
        drawn = (random.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5).astype(numpy.float32)
        weights.append(numpy_helper.from_array(drawn, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"x{i + 1}"]))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDTH])
    graph = helper.make_graph(nodes, "layers", [value("x0")], [value(f"x{LAYERS}")], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made.SerializeToString()


told = onnxruntime.SessionOptions()
told.intra_op_num_threads = given.threads
told.inter_op_num_threads = 1
if not given.spinning:
    told.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(model(), told, providers=["CPUExecutionProvider"])
x = random.normal(size=(ROWS, WIDTH)).astype(numpy.float32)


def operate():
    """All layers once."""
    (y,) = session.run(None, {"x0": x})
    assert y.shape == (ROWS, WIDTH) and numpy.isfinite(y).all(), "no result"
    return victim.checksum(y)


victim.run(given, operate)
