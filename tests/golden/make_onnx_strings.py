"""Cases of ONNX operators on strings, of classifiers whose labels are text, and of pipelines of them.

  python3 tests/golden/make_onnx_strings.py            in a Python with onnx and onnxruntime

Writes tests/golden/onnx/strings.npz for tests/unit/cli/onnx_test.cpp.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_case import cases, floats, is_made, run, save

inf, nan = np.inf, np.nan
ML = "ai.onnx.ml"


def texts(*values):
    return np.array(values, dtype=str)


def kind_of(array):
    return TensorProto.STRING if array.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(array.dtype)


def graph(name, nodes, inputs, outputs, weights=None, opset=20, ml=3, sizes=None):
    """inputs, weights: name -> array; outputs: names, `sizes` of inputs: name -> its sizes, where some are open."""
    infos = [helper.make_tensor_value_info(n, kind_of(x), (sizes or {}).get(n, x.shape)) for n, x in inputs.items()]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "case",
            infos,
            [helper.make_empty_tensor_value_info(y) for y in outputs],
            [
                numpy_helper.from_array(w.astype(object) if w.dtype.kind == "U" else w, n)
                for n, w in (weights or {}).items()
            ],
        ),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(ML, ml)],
        ir_version=9,
    ).SerializeToString()
    if not is_made(name):
        return
    given = [x.astype(object) if x.dtype.kind == "U" else x for x in inputs.values()]
    cases[f"{name}/model"] = np.frombuffer(model, "uint8")
    for i, x in enumerate(inputs.values()):
        cases[f"{name}/input_{i}"] = x
    for i, y in enumerate(run(model, given)):
        cases[f"{name}/output_{i}"] = y.astype(str) if y.dtype.kind == "O" else y


def op(name, op_type, *inputs, outputs=1, domain="", weights=None, sizes=None, ml=3, more=None, **attributes):
    """One node: its inputs x0, x1, ..., behind them the weights by name, and the outputs y0, y1, ..."""
    given = {f"x{i}": x for i, x in enumerate(inputs)}
    names = list(given) + list(weights or {})
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="/" + op_type, domain=domain, **attributes, **(more or {}))
    graph(name, [node], given, results, weights, ml=ml, sizes=sizes)


def casts():
    numbers = texts("1", "-2.5", " 3e2 ", "NaN", "INF", "-INF", "+INF", "0.1", "1e-40", "16777217")
    for to in ["FLOAT", "DOUBLE"]:
        op(f"Cast to {to}", "Cast", numbers, to=getattr(TensorProto, to))
    whole = texts("0", "7", "-12", "+90", "127")
    for to in ["INT8", "INT16", "INT32", "INT64"]:
        op(f"Cast to {to}", "Cast", whole, to=getattr(TensorProto, to))
    op("Cast to UINT8", "Cast", texts("0", "255"), to=TensorProto.UINT8)
    # Those whose 8 digits, which ONNX Runtime writes, are what is needed.
    for dtype, small in [("float32", 2**-16), ("float64", 2.5e-5)]:
        values = np.array([0, 1, -2.5, 0.125, 1000000, small, 8 * small, 1e8, 33554432, inf, -inf, nan], dtype)
        op(f"Cast from {dtype}", "Cast", values, to=TensorProto.STRING)
    for dtype in ["int8", "uint8", "int16", "int32", "int64", "bool"]:
        op(f"Cast from {dtype}", "Cast", np.array([0, 1, 7, 100]).astype(dtype), to=TensorProto.STRING)


def moves():
    x = texts("a", "b", "", "Zürich", "b", "日本").reshape(2, 3)
    op("Identity", "Identity", x)
    # Along the last axis: of rows ONNX Runtime 1.21 takes one string.
    op("Gather", "Gather", x, np.int64([[1, 0], [-1, 1]]), axis=1)
    op("GatherElements", "GatherElements", x, np.int64([[2, 0], [1, 1]]), axis=1)
    op("GatherND", "GatherND", x, np.int64([[1, 0], [0, 2]]))
    op("Concat", "Concat", x, texts("c", "d").reshape(2, 1), axis=1)
    op("Reshape", "Reshape", x, weights={"s": np.int64([3, -1])})
    op("Transpose", "Transpose", x)
    op("Slice", "Slice", x, weights={"b": np.int64([1]), "e": np.int64([3]), "a": np.int64([1])})
    op("Split", "Split", x, outputs=2, axis=0, num_outputs=2)
    op("Squeeze", "Squeeze", x.reshape(2, 1, 3))
    op("Unsqueeze", "Unsqueeze", x, weights={"a": np.int64([0])})
    op("Expand", "Expand", texts("a", "b").reshape(2, 1), weights={"s": np.int64([2, 2, 3])})
    op("Where", "Where", np.array([True, False, True]), x, weights={"n": texts("none")})
    op("Shape", "Shape", x)
    op("Size", "Size", x)
    op("Equal", "Equal", x, texts("a", "B", ""))
    op("Equal to one", "Equal", x, weights={"b": texts("b")})
    op("Unique", "Unique", x, outputs=4)
    op("Unique unsorted", "Unique", x, outputs=4, sorted=0)
    op("Unique open", "Unique", x.reshape(6), outputs=1, sizes={"x0": ["n"]})
    op("ScatterElements", "ScatterElements", x, np.int64([[2], [0]]), texts("p", "q").reshape(2, 1), axis=1)


def words():
    x = texts("Monday", "tuesday", "WEDNESDAY", "Ähre", "Straße", "ΣΟΦΟΣ", "ёж")
    for letters in ["LOWER", "UPPER", "NONE"]:
        op(f"StringNormalizer {letters}", "StringNormalizer", x, case_change_action=letters, locale="C.UTF-8")
        for sensitive in [0, 1]:
            op(f"StringNormalizer {letters} without {sensitive}", "StringNormalizer", x.reshape(1, 7),
               case_change_action=letters, locale="C.UTF-8", is_case_sensitive=sensitive,
               stopwords=["monday", "Ähre", "wednesday"])  # fmt: skip
    op("StringNormalizer of nothing left", "StringNormalizer", texts("a", "a"), stopwords=["a"], is_case_sensitive=1,
       locale="C.UTF-8")  # fmt: skip
    op("StringConcat", "StringConcat", texts("a", "b").reshape(2, 1), texts("x", "", "é"))
    # Not where ONNX Runtime departs from ONNX's reference: it splits at no tabs, finds no parts in an empty text, and
    # cuts spaces from the end of what is left over.
    lines = texts(" a b  c", "one", "x, y,,z", "日本 語 end").reshape(2, 2)
    op("StringSplit by spaces", "StringSplit", lines, outputs=2)
    op("StringSplit once", "StringSplit", lines, outputs=2, maxsplit=1)
    op("StringSplit by commas", "StringSplit", lines, outputs=2, delimiter=",")
    op("StringSplit by commas twice", "StringSplit", lines, outputs=2, delimiter=",", maxsplit=2)
    patterns = [
        "a*b?c+", "[a-c]{2,3}", r"\d+\.\d*|x", "(?i)straSSe|ÄHRE", "(ab|a)(bc|c)?", "[^a-z]+", ".*", r"\w+@[\w.]+\.com",
        "^abc$", r"\babc\b", "(?s)a.c", "a.c", "(a|b|ab)*", "x{0}y", "[[:alpha:]]+", "[]a]+", r"[\]\-x]+", "a{2}|{", "",
        r"(?P<n>a)(?:b)c??", r"\x61\x{62}c", r"\Qa.c\E+", "(?i:A)bc", "(a*)*b?c*",
    ]  # fmt: skip
    subjects = texts("abc", "aabcc", "", "ab", "abcabc", "12.5", "x", "y", "Strasse", "ähre", "me@x.y.com", "ABC",
                     "a\nc", "a.c", "a.cc", "]a", "x-]", "aa", "{", "日本")  # fmt: skip
    for i, pattern in enumerate(patterns):
        op(f"RegexFullMatch {i} {pattern}".replace("/", ""), "RegexFullMatch", subjects, pattern=pattern)


def counts():
    pool = dict(ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], mode="TF", min_gram_length=1,
                max_gram_length=2, max_skip_count=1)  # fmt: skip
    numbers = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    x = np.int64([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 6, 7, 8, 6, 7]])
    weights = [0.5, 2.0, 3.0, 0.25, 1.5, 7.0, 0.125]
    for mode in ["TF", "IDF", "TFIDF"]:
        more = {**pool, "mode": mode, "pool_int64s": numbers}
        op(f"TfIdfVectorizer {mode}", "TfIdfVectorizer", x, **more)
        op(f"TfIdfVectorizer {mode} by weight", "TfIdfVectorizer", x, more={**more, "weights": weights})
        order = {**more, "weights": weights, "ngram_indexes": [6, 5, 4, 3, 2, 1, 0]}
        op(f"TfIdfVectorizer {mode} in another order", "TfIdfVectorizer", x, more=order)
    op("TfIdfVectorizer of int32", "TfIdfVectorizer", x.astype("int32"), **pool, pool_int64s=numbers)
    op("TfIdfVectorizer of pairs", "TfIdfVectorizer", x[1], **{**pool, "min_gram_length": 2}, pool_int64s=numbers)
    words = texts("the", "cat", "sat", "the", "mat").reshape(1, 5)
    op("TfIdfVectorizer of words", "TfIdfVectorizer", words, **{**pool, "max_skip_count": 0},
       pool_strings=["the", "cat", "dog", "mat", "the", "cat", "cat", "sat", "sat", "mat"])  # fmt: skip


def machine_learning():
    labels = ["red", "green", "blue"]
    x = texts("green", "red", "none", "", "blue", "red").reshape(2, 3)
    keys = dict(keys_strings=labels)
    op("LabelEncoder to integers", "LabelEncoder", x, domain=ML, **keys, values_int64s=[4, 5, 6], default_int64=-3)
    op("LabelEncoder to floats", "LabelEncoder", x, domain=ML, **keys, values_floats=[0.5, 1.5, 2.5])
    op("LabelEncoder to strings", "LabelEncoder", x, domain=ML, **keys, values_strings=["R", "G", "B"])
    op("LabelEncoder of a default", "LabelEncoder", x, domain=ML, **keys, values_strings=["R", "G", "B"],
       default_string="?")  # fmt: skip
    op("LabelEncoder from integers", "LabelEncoder", np.int64([2, 7, 1]), domain=ML, keys_int64s=[1, 2],
       values_strings=["one", "two"])  # fmt: skip
    op("LabelEncoder from floats", "LabelEncoder", np.float32([2, 7, nan]), domain=ML, keys_floats=[nan, 2.0],
       values_strings=["one", "two"])  # fmt: skip
    op("LabelEncoder with NaN", "LabelEncoder", np.float32([2, -0.0, nan]), domain=ML, ml=4,
       keys_tensor=numpy_helper.from_array(np.float32([nan, 2.0, 0.0])),
       values_tensor=numpy_helper.from_array(np.array(["one", "two", "three"], object)),
       default_tensor=numpy_helper.from_array(np.array(["other"], object)))  # fmt: skip
    op("LabelEncoder 1", "LabelEncoder", x, domain=ML, ml=1, classes_strings=labels, default_int64=-5)
    op("LabelEncoder 1 back", "LabelEncoder", np.int64([0, 2, 9]), domain=ML, ml=1, classes_strings=labels)
    mapper = dict(cats_strings=labels, cats_int64s=[10, 20, 30], default_int64=-9, default_string="none of them")
    op("CategoryMapper", "CategoryMapper", x, domain=ML, **mapper)
    op("CategoryMapper back", "CategoryMapper", np.int64([20, 5]), domain=ML, **mapper)
    op("OneHotEncoder", "OneHotEncoder", x, domain=ML, cats_strings=labels)
    op("ArrayFeatureExtractor", "ArrayFeatureExtractor", x, np.int64([2, 0]), domain=ML)
    rows = floats(6, 3)
    weights = [float(v) for v in floats(9)]
    for transform in ["NONE", "SOFTMAX"]:
        op(f"LinearClassifier {transform}", "LinearClassifier", rows, domain=ML, outputs=2, classlabels_strings=labels,
           coefficients=weights, intercepts=weights[:3], post_transform=transform)  # fmt: skip
    op("LinearClassifier of two", "LinearClassifier", rows, domain=ML, outputs=2, classlabels_strings=["no", "yes"],
       coefficients=weights[:3], intercepts=weights[:1])  # fmt: skip
    for classes, counts in [(2, [2, 3]), (3, [2, 1, 2])]:
        pairs = classes * (classes - 1) // 2
        vectors = dict(vectors_per_class=counts, support_vectors=[float(v) for v in floats(5 * 3)],
                       coefficients=[float(v) for v in floats(5 * (classes - 1))], rho=weights[:pairs],
                       classlabels_strings=labels[:classes])  # fmt: skip
        likely = dict(prob_a=[-1.5, -0.5, -1.0][:pairs], prob_b=[0.25, -0.25, 0.5][:pairs])
        for transform in ["NONE", "LOGISTIC", "SOFTMAX"]:
            for kind, more in [("", {}), (" with probabilities", likely)]:
                op(f"SVMClassifier of {classes} {transform}{kind}", "SVMClassifier", rows, domain=ML, outputs=2,
                   kernel_type="RBF", kernel_params=[0.4, 0.0, 3.0], post_transform=transform,
                   **vectors, **more)  # fmt: skip
        op(f"SVMClassifier of {classes} lines", "SVMClassifier", rows, domain=ML, outputs=2, kernel_type="LINEAR",
           kernel_params=[0.0, 0.0, 0.0], coefficients=weights[: 3 * classes], rho=[0.25],
           classlabels_ints=[3, 5, 8][:classes])  # fmt: skip
    tree = dict(
        nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 2, 0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF"], nodes_values=[0.2, -0.3, 0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 2, 0, 0, 0], nodes_falsenodeids=[4, 3, 0, 0, 0], class_treeids=[0, 0, 0],
        class_nodeids=[2, 3, 4], class_ids=[0, 1, 2], class_weights=[0.5, 1.5, 2.0],
    )  # fmt: skip
    op("TreeEnsembleClassifier", "TreeEnsembleClassifier", rows, domain=ML, outputs=2, classlabels_strings=labels,
       **tree)  # fmt: skip


def pipelines():
    """As sklearn-onnx writes them: columns of text and numbers, classified; words, counted and classified."""
    node = helper.make_node
    city = texts("Rome", "Oslo", "Bern", "Rome", "Paris").reshape(5, 1)
    numbers = floats(5, 2)
    weights = [float(v) for v in floats(18)]
    graph(
        "columns",
        [
            node("OneHotEncoder", ["city"], ["hot"], domain=ML, cats_strings=["Bern", "Oslo", "Paris", "Rome"]),
            node("Reshape", ["hot", "flat"], ["hots"]),
            node("Scaler", ["numbers"], ["scaled"], domain=ML, offset=weights[:2], scale=weights[2:4]),
            node("Concat", ["hots", "scaled"], ["row"], axis=1),
            node("LinearClassifier", ["row"], ["label", "scores"], domain=ML, coefficients=weights,
                 intercepts=weights[:3], classlabels_strings=["cold", "mild", "warm"], post_transform="SOFTMAX"),
            node("Cast", ["label"], ["output_label"], to=TensorProto.STRING),
            node("Normalizer", ["scores"], ["probabilities"], domain=ML, norm="L1"),
        ],
        {"city": city, "numbers": numbers},
        ["output_label", "probabilities"],
        {"flat": np.int64([-1, 4])},
        opset=17,
        ml=1,
        sizes={"city": ["n", 1], "numbers": ["n", 2]},
    )  # fmt: skip
    graph(
        "words",
        [
            node("StringNormalizer", ["line"], ["small"], case_change_action="LOWER", stopwords=["the"],
                 locale="C.UTF-8"),
            node("TfIdfVectorizer", ["small"], ["counts"], mode="TFIDF", min_gram_length=1, max_gram_length=1,
                 max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2, 3], weights=weights[:4],
                 pool_strings=["bad", "film", "good", "plot"]),
            node("Gemm", ["counts", "w", "b"], ["scores"]),
            node("ArgMax", ["scores"], ["best"], axis=1),
            node("ArrayFeatureExtractor", ["classes", "best"], ["label"], domain=ML),
            node("Reshape", ["label", "flat"], ["output_label"]),
            node("Softmax", ["scores"], ["probabilities"], axis=1),
        ],
        {"line": texts("The", "good", "PLOT", "the", "Good", "film").reshape(1, 6)},
        ["output_label", "probabilities"],
        {"w": floats(4, 2), "b": floats(2), "classes": texts("negative", "positive"), "flat": np.int64([-1])},
    )  # fmt: skip


casts()
moves()
words()
counts()
machine_learning()
pipelines()
save("strings")
