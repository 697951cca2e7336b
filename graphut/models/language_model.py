"""The Universal Transformer as a language model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from graphut._tokens import BOS, EOS
from graphut.attention.layout import upload
from graphut.attention.ragged import starts
from graphut.models.config import SearchOptions, UniversalTransformerLMConfig
from graphut.models.generative_model import GenerativeModel
from graphut.models.layer_builders import make_recurrence
from graphut.models.outputs import Generation, LMOutput
from graphut.models.sentence_nodes import SentenceNodes
from graphut.sentences import Sentences, flatten, insert_token
from graphut.topology import parse


class UniversalTransformerLM(GenerativeModel):
    """A decoder-only adaptive Universal Transformer (arXiv 1807.03819, sections 3.2 and 3.3).

    One step is repeated over a causal graph of the tokens of each text, until each node halts. The
    input begins with `bos`, and each token predicts the next one.

    Examples
    --------
    >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
    >>> output = model([[5, 3, 4], [2]])
    >>> output.logits.shape, output.labels
    (torch.Size([6, 9]), tensor([5, 3, 4, 1, 2, 1]))
    """

    config_class = UniversalTransformerLMConfig
    reads = writes = "text"
    config: UniversalTransformerLMConfig

    def __init__(self, config: UniversalTransformerLMConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.decoder = make_recurrence(config, causal=True)
        self.output = nn.Linear(config.d_model, config.vocab_size)
        self.output.weight = self.embedding.weight  # tied
        self.reset_parameters()

    def forward(
        self, texts: Sentences, *, ends: bool = True, get_attention: bool = False
    ) -> LMOutput:
        """Compute the logits of every token of each text, given the earlier tokens.

        Parameters
        ----------
        texts : sequence of sequences of int
            Tokens without `bos` and `eos`: lists, 1-D integer tensors or arrays.
        ends : bool
            Whether to predict `eos` at the end of each text; False for excerpts of longer texts.
        get_attention : bool
            Also return the attention weights between tokens, as `output.ponder.attention`.

        Raises
        ------
        TypeError, ValueError
            If a token is not an integer in the vocabulary, a text is empty and `ends` is false, or
            a text, with its `eos`, is longer than `config.max_length`.
        """
        nodes, labels = self._read(texts, ends)
        layout, token, labels = upload([nodes.layout, nodes.token, labels], self.device)
        feat = nodes.first_states(self._embed(self.embedding, token))
        # Positions are drawn after dropout, so that old seeds still give the same runs.
        positions, drawn = nodes.position, self._drawn_positions(nodes.lengths)
        if drawn is not None:
            positions = nodes.redrawn(positions, drawn)
        out, ponder, *_ = self.decoder(
            layout, feat, positions=upload([positions], self.device)[0], get_attention=get_attention
        )
        steps = nodes.select_tokens(ponder.steps)
        return LMOutput(self.output(nodes.select_tokens(out)), labels, ponder, steps, nodes.lengths)

    def _generate(self, sequences: Sentences, options: SearchOptions) -> list[Generation]:
        tokens, lengths = flatten(sequences, "prompts")
        self._check_tokens(tokens, self.embedding.num_embeddings, "token")
        what = f"a prompt and an output of generate(max_length={options.max_length})"
        self._check_length(int(lengths.max()) + options.max_length, what)
        prompts = tokens.split(lengths.tolist())
        by_prompt: dict[int, Generation] = {}
        for length in lengths.unique():
            same = (lengths == length).nonzero()[:, 0]
            embed = partial(self._embed, self.embedding)
            decoder = self._token_decoder(self.topology, embed, same)
            batch = torch.stack([prompts[i] for i in same.tolist()])
            *fed, last = pad(batch, (1, 0), value=BOS).to(self.device).unbind(1)
            each = torch.arange(len(same))
            columns = [decoder.advance(each, tokens)[1].tolist() for tokens in fed]
            steps = [[column[i] for column in columns] for i in range(len(same))]
            answers = self._search(decoder, last, options, steps)
            by_prompt.update(zip(same.tolist(), answers, strict=True))
        return [by_prompt[i] for i in range(len(lengths))]

    def text_of(self, sequence: Sequence[int], answer: Generation) -> str:
        return self.decode([*sequence, *answer.tokens])

    def _run_again(self, sequence: Sequence[int], answer: Generation) -> Generation:
        text = [*sequence, *answer.tokens]
        return replace(answer, decoder=self([text], ends=answer.ended, get_attention=True).ponder)

    def _read(self, texts: Sentences, ends: bool) -> tuple[SentenceNodes, Tensor]:
        """Return the input nodes, and the token to predict at each input token."""
        tokens, lengths = flatten(texts, "texts", allow_empty=ends)
        self._check_tokens(tokens, self.embedding.num_embeddings, "token")
        if ends:
            lengths = lengths + 1
            tokens = insert_token(tokens, lengths.cumsum(0) - 1, EOS)
        self._check_length(int(lengths.max()), "a text, with its <eos>," if ends else "a text")
        fed = tokens.roll(1)
        fed[starts(lengths)] = BOS
        return SentenceNodes.from_tokens(fed, lengths, self.topology, causal=True), tokens
