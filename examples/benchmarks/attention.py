"""Compare implementations of one attention call, on one topology or on several.

    python examples/benchmarks/attention.py --topology causal --shape 64x10-60
    python examples/benchmarks/attention.py --topology causal star --shape 1x4096 --contenders auto

Results and gradients are first compared with float64. `--active .25` computes a quarter of the
nodes, and `--cold` writes 64 MB of other data before each call, to clear the caches.
"""

from functools import partial
from typing import Any

import common
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention import edge_attention
from graphut.topology import parse

CONTENDERS = ("dgl", "torch", "native", "triton", "pyg", "padded")


class Call:
    """One attention call over a batch of sentences: query, keys, values, gradient of the output."""

    def __init__(self, spec: str, options: Any) -> None:
        layout = parse(spec).layout(common.draw_lengths(options.shape)).to(options.device)
        nodes, generator = layout.num_src, torch.Generator().manual_seed(0)
        chosen = torch.randperm(nodes, generator=generator)[: round(options.active * nodes)]
        self.active = chosen.sort().values.to(options.device)
        self.frontier = self.active if options.active < 1 else None
        self.layout, self.edges = layout, layout.in_edges(self.frontier)[:2]
        counts, feats = (len(chosen), nodes, nodes, len(chosen)), options.dim // options.heads
        drawn = (torch.randn(n, options.heads, feats, generator=generator) for n in counts)
        self.tensors = [x.to(options.device, getattr(torch, options.dtype)) for x in drawn]

    def prepare(self, name: str) -> tuple[Any, list[Tensor]]:
        """Return a function that runs a contender forward and backward, and its results."""
        attend: Any = partial(edge_attention, self.layout, frontier=self.frontier, backend=name)
        tensors, unpad = self.tensors, list
        if hasattr(self, name):
            attend, tensors, unpad = getattr(self, name)()
        elif name.startswith("float"):
            attend = partial(attend, backend="torch" if name == "float64" else "auto")
            tensors = [x.to(getattr(torch, name)) for x in tensors]
        inputs = [x.clone().requires_grad_() for x in tensors[:3]]

        def run() -> list[Tensor]:
            out = attend(*inputs)
            return [out.detach(), *torch.autograd.grad(out, inputs, tensors[3])]

        return run, unpad(run())

    def padded(self) -> tuple[Any, Any, Any]:
        # Padded before the timing. The batch of active queries may be shorter than that of keys.
        lengths = self.layout.src_lengths.to(self.tensors[0].device)
        counts = torch.repeat_interleave(lengths)[self.active].bincount(minlength=len(lengths))
        rows, sources = common.present(counts), common.present(lengths)
        mask = common.attention_mask(rows, sources, self.edges)
        pairs = zip(self.tensors, (rows, sources, sources, rows), strict=True)
        tensors = [common.pad(x, each).transpose(1, 2) for x, each in pairs]

        def unpad(found: list[Tensor]) -> list[Tensor]:
            pairs = zip(found, (rows, rows, sources, sources), strict=True)
            return [x.transpose(1, 2)[each] for x, each in pairs]

        return partial(scaled_dot_product_attention, attn_mask=mask), tensors, unpad

    def pyg(self) -> tuple[Any, Any, Any]:  # in `TransformerConv`, without linear maps
        from torch_geometric.nn import TransformerConv

        rows, heads, feats = self.tensors[0].shape
        conv = TransformerConv(feats, feats, heads=heads, root_weight=False)
        edges = {"edge_index": torch.stack(self.edges[::-1]), "size": (self.layout.num_src, rows)}
        attend = partial(conv.propagate, edge_attr=None, **edges)
        return lambda q, k, v: attend(query=q, key=k, value=v), self.tensors, list


def bench_attention(options: Any) -> list[common.Row]:
    """Return a row for each topology and each contender that can run."""
    is_narrow = options.dtype == "bfloat16"
    runs, calls, errors = {}, {spec: Call(spec, options) for spec in options.topology}, {}
    for spec, call in calls.items():
        _, expected = call.prepare("float64")
        for name in (*options.contenders, *("float32",) * is_narrow):
            try:
                runs[spec, name], found = call.prepare(name)
                limit = 2e-2 if is_narrow else 1e-5
                errors[spec, name] = common.relative_error(found, expected, limit)
            except Exception as failure:  # noqa: PERF203, the others still run
                runs.pop((spec, name), None)
                print(f"{spec}: {name} cannot run: {str(failure).strip().splitlines()[0]}")
    other = torch.zeros(64 << 20, dtype=torch.uint8, device=options.device)
    before = partial(other.add_, 1) if options.cold else None
    text = f"{options.shape}, {options.dim} features" + ", bfloat16" * is_narrow
    text += f", {options.active:.0%} active" * (options.active < 1) + ", cold caches" * options.cold
    rows = common.time_in_turns(text, runs, options.repeats, before)
    for row in rows:
        spec, name = key = row["contender"]
        count = len(calls[spec].edges[0])
        row |= {"workload": f"{spec}, {text}", "contender": name, "error": errors[key]}
        row["ns_per_edge"] = 1e6 * row["ms"] / count
        row["gflop_s"] = 14e-6 * count * options.dim / row["ms"]  # 4 forward, 10 backward
    return rows


if __name__ == "__main__":
    here = "cuda" if torch.cuda.is_available() else "cpu"
    size = {"shape": "64x10-60", "dim": 128, "heads": 8, "dtype": "float32", "active": 1.0}
    how = {"topology": ("complete",), "contenders": CONTENDERS, "cold": False, "device": here}
    options = common.parse_options(__doc__, **size, **how)
    common.report("attention", [bench_attention(options)], options.results, options.device)
