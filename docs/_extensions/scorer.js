// Pages for readers come before notes and generated tables; the other weights are those of Sphinx.
const FIRST = /^(index|getting-started|which-measure|guides\/|concepts\/|trust\/|errors|auto_gallery\/)/;
const LAST = /^(notes\/|benchmarks|ledger|genindex|py-modindex)/;

var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score + (FIRST.test(page) ? 2 : LAST.test(page) ? -4 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
