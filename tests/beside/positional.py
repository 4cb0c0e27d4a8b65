"""What every script needs that quantizes a loaded .pt2 in PyTorch."""


def positional(graph_module):
    """prepare_pt2e refuses the keyword arguments that loading a .pt2 gives; put them back into schema order."""
    import torch

    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.kwargs and isinstance(node.target, torch._ops.OpOverload):
            arguments, kwargs = list(node.args), dict(node.kwargs)
            for argument in node.target._schema.arguments[len(arguments) :]:
                if argument.kwarg_only or argument.name not in kwargs:
                    break
                arguments.append(kwargs.pop(argument.name))
            node.args, node.kwargs = tuple(arguments), kwargs
    graph_module.recompile()
    return graph_module
