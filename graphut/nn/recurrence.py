"""The adaptive recurrence, which repeats a step until every node has halted."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from torch import Tensor, nn
from torch.compiler import is_compiling

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_tensor
from graphut.attention.tracing import leave_program
from graphut.nn.call import begin_call, close_call, run_call
from graphut.nn.checks import check_batch_norm, check_separate_steps
from graphut.nn.noise import InputNoise, Quantized, kinds_of_noise
from graphut.nn.ponder import Ponder
from graphut.nn.rules import ACT, EventDriven, FixedDepth, HaltingRule
from graphut.nn.rules.base import states_read
from graphut.nn.signals import LearnedSignal, Signal, make_signal
from graphut.nn.step import HaltingUnit, UniversalTransformerStep

HALTED = ("copied", "frozen", "stale", "running")
_FIXED_DEPTH, _ACT = FixedDepth(), ACT()  # the default rules


class AdaptiveRecurrence(nn.Module):
    r"""Repeat a Universal Transformer step until every node has halted.

    This is Adaptive Computation Time (arXiv 1603.08983) for each node, as in arXiv 1807.03819,
    section 2.2. In step :math:`t`, each active node :math:`i` computes

    .. math::
        y_i = x_i + P(pos_i, t), \quad x_i \leftarrow \mathrm{Step}(y)_i, \quad
        p_i = \sigma(w \cdot u_i + b), \quad out_i \leftarrow out_i + w_i x_i

    where :math:`P(pos, t) = S(pos) + S'(t)` is the sum of a position signal and a step signal,
    :math:`u_i` is the state before or after the step, and :math:`w_i` is the weight that the rule
    gives to the new state. A node halts when the halting rule decides so, or after `max_steps`
    steps. Nodes that have halted and their in-edges are not computed. The rules and `max_steps`
    (except for a sequence of steps) can be changed later.

    Parameters
    ----------
    step : UniversalTransformerStep, or sequence of them
        The step. A sequence of `max_steps` steps gives each repetition its own weights, as in a
        plain Transformer. The steps must have the same settings, and with `norm="pre"` all but the
        last must have `output_norm=False`. With a sequence, `HaltingUnit(d, units=max_steps)` has a
        unit for each step.
    halting : HaltingUnit or ScheduledHalting, optional
        Module that returns the halting probability of each active node, given their states, their
        ids (None for all nodes; in `generate`, rows of hypotheses) and the step.
    rule : HaltingRule, optional
        Decides in training when a node halts and how its states form its output. The default is
        `ACT()`, or `FixedDepth()` without a halting module.
    evaluation_rule : HaltingRule, optional
        The rule after `layer.eval()`. The default is `rule.for_evaluation()`.
    max_steps : int
        The largest number of steps, `T`.
    halted : {"copied", "frozen", "stale", "running"}
        What the neighbours of a halted node read. "copied": its final state with the signal of the
        current step. "frozen": its final state with the signal of the step after its last.
        "stale": the keys and values of its last step. "running": a state that is still updated.
    evaluation_halted : {"copied", "frozen", "stale", "running"}, optional
        The same after `layer.eval()`; the default is `halted`. With "running" in training and
        "frozen" in evaluation, all nodes help to train the step, and evaluation saves the work, but
        nodes read other states than in training.
    position_signal : {"sinusoidal", "sinusoidal0"} or callable, optional
        Signal of positions: the sinusoids of the paper, the same counted from 0 instead of 1, or a
        function or module that returns rows `(n, d)` for positions `(n,)` or `(n, k)`, such as
        `LearnedSignal`. With `None`, positions are ignored.
    step_signal : {"sinusoidal", "sinusoidal0", "learned"} or callable, optional
        Signal of the step numbers 1, 2, ..., in the same way; "learned" is a table of `max_steps`
        rows. With `None`, "copied" and "frozen" are the same. Give `None` to nodes without
        positions: what all nodes share grows with each average over neighbours.
    inject_input : bool
        Add the first states in every step: :math:`y_i = x_i + P(pos_i, t) + x^0_i`.
    noise : InputNoise or sequence of InputNoise, optional
        Noise in training, at most one for each value of `on`.
    quantize : Quantized, optional
        Round the first states, before noise is added, and every new state. The injected states are
        not rounded.

    Raises
    ------
    TypeError, ValueError
        If a part has another type, if a name is unknown, if the steps or a rule do not fit the
        other arguments, if noise is set for injected states without `inject_input`, or if a step
        has a `BatchNorm` and nodes halt (unless `halted` is "running").

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), max_steps=6)
    >>> out, ponder = layer(Complete().graph([3, 2]), torch.randn(5, 8))
    >>> out.shape, ponder.steps.shape
    (torch.Size([5, 8]), torch.Size([5]))
    """

    def __init__(
        self,
        step: UniversalTransformerStep | Sequence[UniversalTransformerStep],
        halting: nn.Module | None = None,
        *,
        rule: HaltingRule | None = None,
        evaluation_rule: HaltingRule | None = None,
        max_steps: int = 8,
        halted: str = "copied",
        evaluation_halted: str | None = None,
        position_signal: Signal | str | None = "sinusoidal",
        step_signal: Signal | str | None = "sinusoidal",
        inject_input: bool = False,
        noise: InputNoise | Sequence[InputNoise] | None = None,
        quantize: Quantized | None = None,
    ) -> None:
        super().__init__()
        _check_halted(halted)
        _check_halted(evaluation_halted or halted)
        if isinstance(step, nn.ModuleList):
            step = [*step]
        for each in step if isinstance(step, Sequence) else [step]:
            if not isinstance(each, UniversalTransformerStep):
                raise TypeError(f"a step is a UniversalTransformerStep, got {type(each).__name__}")
        if isinstance(step, Sequence):
            check_separate_steps(step, halting, max_steps)
        elif getattr(halting, "units", 1) > 1:
            raise ValueError("halting units of each step need a sequence of steps: use units=1")
        width = (step[0] if isinstance(step, Sequence) else step).attention.in_feats[1]
        if isinstance(halting, HaltingUnit) and halting.in_feats != width:
            raise ValueError(
                f"the halting unit reads {halting.in_feats} features, but a state has {width}"
            )
        kinds = kinds_of_noise(noise)
        if not all(isinstance(kind, InputNoise) for kind in kinds):
            raise TypeError(
                f"noise is InputNoise such as InputNoise(0.3), or several; got {noise!r}"
            )
        if not isinstance(quantize, Quantized | None):
            raise TypeError(f"quantize is Quantized such as Quantized(2), got {quantize!r}")
        places = [kind.on for kind in kinds]
        if len(set(places)) < len(places):
            raise ValueError(f"noise is given twice for one place: {', '.join(places)}")
        if not inject_input and "every_step" in places:
            raise ValueError("noise on 'every_step' states needs inject_input=True")
        self.step = nn.ModuleList(step) if isinstance(step, Sequence) else step
        self.halting = halting
        self.max_steps = max_steps
        self.halted, self.evaluation_halted = halted, evaluation_halted
        self.position_signal = make_signal(position_signal, "position_signal", width)
        self.step_signal = make_signal(step_signal, "step_signal", width, max_steps)
        self.inject_input = inject_input
        self.noise = noise
        self.quantize = quantize
        self._set_rules(rule, evaluation_rule)

    def reset_parameters(self) -> None:
        """Draw new parameters in the step, the halting unit and learned signals."""
        for part in (*self.steps, self.halting, self.position_signal, self.step_signal):
            if isinstance(part, (UniversalTransformerStep, HaltingUnit, LearnedSignal)):
                part.reset_parameters()

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        positions: Tensor | None = None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None = None,
        edge_bias: Tensor | None = None,
        edge_feat: Tensor | None = None,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
        get_steps: bool = False,
    ) -> tuple[Any, ...]:
        """Return the output states, and a record of steps and costs (`Ponder`).

        Parameters
        ----------
        graph : DGLGraph or EdgeLayout
            The edges of self-attention. The destinations are the sources, or, in a block, the first
            sources; the other sources do not change, like halted nodes.
        feat : Tensor
            `(N_src, d)`, the first states :math:`x^0`.
        positions : Tensor, optional
            `(N_src,)`, the position of each node, counted from 1; or `(N_src, k)` coordinates, with
            `d / k` features for each. Without positions, only the step signal is added.
        cross : pair of graph and Tensor, optional
            For a decoder step: the edges from the encoder's nodes, and the encoder's output,
            :math:`m`.
        edge_bias, edge_feat, edge_weight
            For every step, see `MultiHeadAttention`.
        get_attention : bool
            Also return the weights of self-attention, and store all attention weights and halting
            probabilities in the `Ponder` record.
        get_steps : bool
            Also return the active nodes of every step and their states, for a loss in every step.

        Returns
        -------
        Tensor
            `(N_dst, d)`, output states.
        Ponder
            Steps and remainder of each node, the ponder cost, and the number of operations.
        list of Tensor
            With `get_attention`: `(E, num_heads)` for each step, zero for edges into halted nodes.
        list of FrontierRows
            With `get_steps`, for each step: ids, new states, their weights in the output, and
            halting probabilities of the active nodes. If the output is the last state, the weight
            is 1 for nodes that halt and 0 for others. All but the ids have gradients. The first
            states, which count with `ACT(min_steps=0)`, are not among them.

        Raises
        ------
        TypeError, ValueError
            If features or probabilities are not finite or do not fit, if a signal has no row for a
            position or a step, if `max_steps` is out of range, or if an argument that the rule
            needs is missing. On a GPU with Triton, the error about values that are not finite can
            come in a later call, because the host does not wait for the device.
        RuntimeError
            If nodes halt while a CUDA graph is captured.

        Examples
        --------
        A loss in every step, for the active nodes:

        >>> import torch
        >>> from torch.nn.functional import cross_entropy
        >>> from graphut.nn import MultiHeadAttention, PonderNet, PositionwiseTransition
        >>> from graphut.topology import Complete
        >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
        >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), rule=PonderNet())
        >>> x, label = torch.randn(5, 8), torch.tensor([0, 1, 1, 0, 1])
        >>> out, ponder, steps = layer(Complete().graph([3, 2]), x, get_steps=True)
        >>> for rows in steps:
        ...     each = cross_entropy(rows.states, label[rows.nodes], reduction="none")
        ...     (rows.weights * each).sum().backward(retain_graph=True)
        """
        options: dict[str, Any] = {
            "positions": positions,
            "cross": cross,
            "edge_bias": edge_bias,
            "edge_feat": edge_feat,
            "edge_weight": edge_weight,
            "get_attention": get_attention,
            "get_steps": get_steps,
        }
        if is_compiling():
            return leave_program(self.forward, graph, feat, **options)
        call = begin_call(self, graph, feat, **options)
        return close_call(call, run_call(call))

    def resume(
        self,
        ponder: Ponder,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        changed: Tensor | None = None,
        edges_into: Tensor | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Continue a run with the rule `EventDriven` after a change of the graph or of features.

        The first round computes the nodes with new features, new nodes, their out-neighbours, the
        destinations of changed edges, and, if the earlier run was cut off, the nodes that were
        still awake. Other nodes compute only if a change reaches them. The result equals a new run
        if the fixed point of the model does not depend on the first states; training with random
        first states, `InputNoise(2.0)`, helps. The call projects all nodes to keys and values once.
        After that, a round costs as much as its frontier.

        Parameters
        ----------
        ponder : Ponder
            The record of the earlier call. Nodes with ids from its number of nodes on are new.
        graph, feat, **options
            The new graph, the features of all its nodes, and other arguments of `forward`. The
            results have the same form as in `forward`.
        changed : Tensor, optional
            Ids, int64, of nodes whose features or positions have changed.
        edges_into : Tensor, optional
            Ids, int64, of the destinations of edges that were added, removed or changed.

        Raises
        ------
        TypeError, ValueError
            If the active rule is not `EventDriven`, or if `ponder` or an id does not fit the graph.

        Examples
        --------
        >>> import torch
        >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition
        >>> from graphut.topology import Window
        >>> _ = torch.manual_seed(3)  # with other weights, some nodes may never be at rest
        >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
        >>> layer = AdaptiveRecurrence(step, rule=EventDriven(max_rounds=1000), step_signal=None,
        ...                            inject_input=True, quantize=Quantized(levels=1))
        >>> graph, x = Window(1).graph([100]), torch.randn(100, 8)
        >>> out, ponder = layer(graph, x)
        >>> x[50] = torch.randn(8)
        >>> out, ponder = layer.resume(ponder, graph, x, changed=torch.tensor([50]))
        >>> ponder.frontier_sizes[0]
        tensor(3)
        """
        rule = self.active_rule
        if not isinstance(rule, EventDriven):
            raise ValueError(f"resume is for the rule EventDriven, but the rule is {rule}")
        check_tensor(feat, "features of source nodes")
        layout = as_layout(graph).to(feat.device)
        if layout.halo is not None:
            raise ValueError("a part of a graph does not support resume")
        from graphut.nn.waking import start_of_changes

        start = start_of_changes(layout, ponder, feat, changed, edges_into)
        call = begin_call(self, graph, feat, **options)
        return close_call(call, run_call(call, start))

    @property
    def steps(self) -> list[UniversalTransformerStep]:
        """The step modules: one, or one for each repetition."""
        steps: Any = self.step
        return [*steps] if isinstance(steps, nn.ModuleList) else [steps]

    @property
    def rule(self) -> HaltingRule:
        """The halting rule in training; setting it to `None` restores the default."""
        return self._rule or (_FIXED_DEPTH if self.halting is None else _ACT)

    @rule.setter
    def rule(self, rule: HaltingRule | None) -> None:
        self._set_rules(rule, self._evaluation_rule)

    @property
    def evaluation_rule(self) -> HaltingRule:
        """The halting rule in evaluation; setting it to `None` restores `rule.for_evaluation()`."""
        return self._evaluation_rule or self.rule.for_evaluation()

    @evaluation_rule.setter
    def evaluation_rule(self, rule: HaltingRule | None) -> None:
        self._set_rules(self._rule, rule)

    @property
    def active_rule(self) -> HaltingRule:
        """The halting rule of the current mode, training or evaluation."""
        rule: HaltingRule = self._rule or (_FIXED_DEPTH if self.halting is None else _ACT)
        return rule if self.training else self._evaluation_rule or rule.for_evaluation()

    @property
    def active_halted(self) -> str:
        """The value of `halted` in the current mode, training or evaluation."""
        mode = self.halted if self.training else self.evaluation_halted or self.halted
        if mode not in HALTED:  # a user has set it
            _check_halted(mode)
        return mode

    def _set_rules(self, rule: HaltingRule | None, evaluation_rule: HaltingRule | None) -> None:
        first = rule or (_FIXED_DEPTH if self.halting is None else _ACT)
        for each in (first, evaluation_rule or first):
            if not isinstance(each, HaltingRule):
                raise TypeError(
                    f"a rule is a HaltingRule such as ACT(), got {each!r}; parse_rule('act') "
                    "returns one for a string"
                )
        rules = first, evaluation_rule or first.for_evaluation()
        halted = self.halted, self.evaluation_halted or self.halted
        for each, mode, in_training in zip(rules, halted, (True, False), strict=True):
            if each.uses_probability and self.halting is None:
                raise ValueError(f"{each} needs a halting module, such as HaltingUnit(d)")
            if isinstance(each, EventDriven):
                from graphut.nn.waking import check_event_driven

                check_event_driven(each, self.step, self.halting, self.step_signal)
            all_run = mode == "running" and not isinstance(each, EventDriven)
            if not (all_run or isinstance(each, FixedDepth)):
                check_batch_norm(self, each, in_training)
        if self.halting is not None and len(states_read(rules)) > 1:
            raise ValueError(
                "the halting module would read the input of the step with one rule and its output "
                f"with the other: use the same halt_from in {rules[0]} and {rules[1]}"
            )
        self._rule, self._evaluation_rule = rule, evaluation_rule

    @property
    def max_steps(self) -> int:
        """The largest number of steps, `T`."""
        return self._max_steps

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
            raise ValueError(f"max_steps must be a whole number, at least 1; got {steps!r}")
        if isinstance(self.step, nn.ModuleList) and steps != len(self.step):
            raise ValueError(
                f"max_steps cannot become {steps}: the sequence has {len(self.step)} steps with "
                "separate weights (share_weights=False)"
            )
        self._max_steps: int = int(steps)

    def extra_repr(self) -> str:
        names = ["max_steps", "halted", "evaluation_halted", "rule", "evaluation_rule"]
        names += ["inject_input", "noise", "quantize"]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _check_halted(mode: str) -> None:
    """Raise `ValueError` if `halted` or `evaluation_halted` is not one of `HALTED`."""
    if mode not in HALTED:
        raise ValueError(f"halted must be one of {', '.join(map(repr, HALTED))}; got {mode!r}")
