"""The Universal Transformer as a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphut.models.config import UniversalTransformerLMConfig
from graphut.models.decoding import Generation, TokenDecoder, check_search, search
from graphut.models.nodes import SentenceNodes
from graphut.models.output import LMOutput
from graphut.models.recurrence import make_recurrence
from graphut.models.writing import WritingModel, generation
from graphut.sentences import BOS, EOS, Sentences, causal_layout, flatten, insert_token
from graphut.topology import node_positions, parse
from graphut.topology.batch import starts


class UniversalTransformerLM(WritingModel):
    """A decoder-only adaptive Universal Transformer (arXiv 1807.03819, sections 3.2 and 3.3).

    One step is repeated over a causal graph of each text's tokens, each node for as long as it
    ponders. What is fed begins with `bos`, and each token predicts the next one.

    Parameters
    ----------
    config : UniversalTransformerLMConfig
        Its shape.

    Examples
    --------
    >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
    >>> output = model([[5, 3, 4], [2]])
    >>> output.logits.shape, output.labels
    (torch.Size([6, 9]), tensor([5, 3, 4, 1, 2, 1]))
    """

    config_kind = UniversalTransformerLMConfig
    config: UniversalTransformerLMConfig

    def __init__(self, config: UniversalTransformerLMConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.decoder = make_recurrence(config, causal=True)
        self.output = nn.Linear(config.d_model, config.vocab_size)
        if config.tie_output:
            self.output.weight = self.embedding.weight
        self.reset_parameters()

    def forward(self, texts: Sentences, *, ends: bool = True) -> LMOutput:
        """Predict every token of each text from those before it.

        Parameters
        ----------
        texts : sequence of sequences of int
            Tokens without `bos` and `eos`: lists, 1-D integer tensors or arrays.
        ends : bool
            Whether the texts end where they end, so that `eos` is to be predicted; `False` for
            windows out of longer texts.

        Returns
        -------
        LMOutput
            Logits, the tokens that come next, and how long the nodes pondered.

        Raises
        ------
        TypeError
            If a token is not an integer.
        ValueError
            If the batch is empty, a window is empty, a node sees none, a token lies outside the
            vocabulary, or a text is longer than `config.max_length`.
        """
        nodes, labels = self._read(texts, ends)
        out, ponder = self.decoder(
            nodes.seeing(causal_layout(self.topology, nodes.lengths)),
            nodes.first_states(self._embed_token),
            positions=nodes.positions(self._drawn_positions(nodes.lengths)),
        )
        steps = nodes.tokens_of(ponder.steps)
        return LMOutput(self.output(nodes.tokens_of(out)), labels, ponder, steps, nodes.lengths)

    @torch.no_grad()
    def log_likelihood(self, texts: Sentences, *, ends: bool = True) -> list[Tensor]:
        """The log-probability, in nats, of every token of each text, given those before it.

        Parameters
        ----------
        texts, ends
            As for `forward`.

        Returns
        -------
        list of Tensor
            `(tokens,)` for each text, that of `eos` at the end where the texts end.

        Examples
        --------
        >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
        >>> [found] = model.log_likelihood([[5, 3, 4]], ends=False)
        >>> found.shape
        torch.Size([3])
        """
        with self.evaluating():
            output = self(texts, ends=ends)
        likely = output.logits.float().log_softmax(-1).gather(1, output.labels[:, None])[:, 0]
        return list(likely.split(output.lengths.tolist()))

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[Sequence[int] | Tensor],
        *,
        max_length: int = 100,
        beam_size: int = 1,
        length_penalty: float = 0.6,
        temperature: float | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> list[Generation]:
        """Go on with prompts: greedily, by beam search, or by sampling.

        Every token, of a prompt too, is computed once, over a cache as deep as each earlier token
        pondered. What a prompt gets does not depend on the others in the batch, but for the luck
        of samples.

        Parameters
        ----------
        prompts : sequence of sequences of int
            Tokens to begin with; one may be empty.
        max_length : int
            Generated tokens at most, `eos` included.
        beam_size, length_penalty, temperature, top_p, generator
            As for `UniversalTransformer.generate`.

        Returns
        -------
        list of Generation
            One for each prompt, in order, without the prompt. `steps` are those in which each
            generated token was predicted, `source_steps` those in which each of the prompt was.

        Raises
        ------
        ValueError
            If an option is out of range, a prompt does not fit the model, or a weight is not a
            finite number.

        Examples
        --------
        >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
        >>> [text] = model.generate([[5, 3, 4]], max_length=2)
        >>> len(text.source_steps), len(text.steps) <= 2
        (3, True)
        """
        check_search(max_length, beam_size, length_penalty, temperature, top_p)
        tokens, lengths = flatten(prompts, "prompts")
        self._check_length(
            int(lengths.max()) + max_length, f"a prompt and an output of max_length={max_length}"
        )
        kind = self._decoder_kind(self.topology)
        each = tokens.split(lengths.tolist())
        found: dict[int, Generation] = {}
        with self.evaluating():
            for length in lengths.unique():
                alike = (lengths == length).nonzero()[:, 0].tolist()
                texts = self._go_on(
                    kind,
                    torch.stack([each[i] for i in alike]).to(self.device),
                    max_length=max_length,
                    beam_size=beam_size,
                    length_penalty=length_penalty,
                    temperature=temperature,
                    top_p=top_p,
                    generator=generator,
                )
                found.update(zip(alike, texts, strict=True))
        return [found[i] for i in range(len(lengths))]

    def _go_on(
        self, kind: Callable[..., TokenDecoder], prompts: Tensor, **options: Any
    ) -> list[Generation]:
        """What follows equally long prompts."""
        decoder = kind(self.decoder, None, self.topology, self._embed_token, self._predict)
        count = len(prompts)
        fed = torch.cat([prompts.new_full((count, 1), BOS), prompts], 1)
        same = torch.arange(count)
        steps = [decoder.advance(same, column)[1].tolist() for column in fed[:, :-1].T]
        own = [[column[i] for column in steps] for i in range(count)]
        ends: dict[str, Any] = {"bos": fed[:, -1], "eos": EOS, "never": BOS}
        hypotheses = search(decoder, count, device=self.device, **options, **ends)
        return [generation(*both) for both in zip(hypotheses, own, strict=True)]

    def _read(self, texts: Sentences, ends: bool) -> tuple[SentenceNodes, Tensor]:
        """The nodes that are fed, and their labels."""
        tokens, lengths = flatten(texts, "texts")
        if ends:
            lengths = lengths + 1
            tokens = insert_token(tokens, lengths.cumsum(0) - 1, EOS)
        elif int(lengths.min()) == 0:
            raise ValueError(f"texts[{int(lengths.argmin())}] is empty: a window needs a token")
        self._check_length(int(lengths.max()), "a text")
        fed = tokens.roll(1)
        fed[starts(lengths)] = BOS
        position = node_positions(self.topology, lengths)
        nodes = SentenceNodes(self.topology, lengths, fed.to(self.device), position.to(self.device))
        return nodes, tokens.to(self.device)

    def _embed_token(self, token: Tensor) -> Tensor:
        return self._embed(self.embedding, token, "token")
