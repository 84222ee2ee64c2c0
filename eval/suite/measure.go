package suite

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/eval/metric"
)

// answered is a question with the answer of a model.
type answered struct {
	*question
	scores []Scored // of the continuations
	text   string   // generated, after a filter
	calls  []Called
}

// kind is a metric. A document contributes numbers, and the figure is a function of
// their sum.
type kind struct {
	name, aggregation string
	outputs           []string
	higher            bool
	yes               bool // a number is 0 or 1
	value             func(sum []float64, n int) float64
	// one returns the numbers of a document, all those of a corpus; one of the two is
	// set.
	one func(m measure, a answered) ([]float64, error)
	all func(all []answered) [][]float64
}

// kindOf returns the metric with a name for an output type.
func kindOf(name, output string) (kind, bool) {
	for _, k := range kinds() {
		if k.name == name && slices.Contains(k.outputs, output) {
			return k, true
		}
	}
	return kind{}, false
}

// metricNames lists the metrics of an output type.
func metricNames(output string) string {
	var out []string
	for _, k := range kinds() {
		if slices.Contains(k.outputs, output) {
			out = append(out, k.name)
		}
	}
	return strings.Join(out, ", ")
}

func defaultMetrics(output string) []string {
	return map[string][]string{
		Likelihood: {"perplexity", "acc"}, Rolling: {"word_perplexity", "byte_perplexity", "bits_per_byte"},
		Choice: {"acc", "acc_norm"}, Generate: {"exact_match"},
	}[output]
}

// Value returns the function of a metric's sums, and whether more is better.
func Value(name string) (value func(sum []float64, n int) float64, higher, yes, ok bool) {
	for _, k := range kinds() {
		if k.name == name {
			return k.value, k.higher, k.yes, true
		}
	}
	return nil, false, false, false
}

func kinds() []kind {
	generate := []string{Generate}
	out := []kind{
		{name: "acc", outputs: []string{Choice, Likelihood}, yes: true, one: right(func(q *question, i int) int { return 1 })},
		{name: "acc_norm", outputs: []string{Choice}, yes: true, one: right(func(q *question, i int) int { return len([]rune(q.choices[i])) })},
		{name: "acc_bytes", outputs: []string{Choice}, yes: true, one: right(func(q *question, i int) int { return len(q.choices[i]) })},
		{name: "exact_match", outputs: generate, yes: true, one: func(m measure, a answered) ([]float64, error) {
			return one(metric.ExactMatch(a.text, a.golds(), m.exact)), nil
		}},
	}
	for name, f := range map[string]func(string, []string) float64{
		"squad_em": metric.SquadExact, "squad_f1": metric.SquadF1, "anls": metric.ANLS, "anls_lmms": metric.ANLSLoose, "vqa_accuracy": metric.VQA,
		"rougeL": metric.RougeL, "rouge1": rougeN(1), "rouge2": rougeN(2), "caption_rougeL": captionRouge, "relaxed_accuracy": relaxed,
	} {
		out = append(out, kind{name: name, outputs: generate, yes: name == "squad_em" || name == "relaxed_accuracy", one: func(_ measure, a answered) ([]float64, error) {
			return one(f(strings.TrimSpace(a.text), a.golds())), nil
		}})
	}
	for i := range out {
		out[i].aggregation, out[i].higher, out[i].value = "mean", true, metric.Mean
	}
	out = append(out, corpora()...)
	out = append(out, tools()...)
	slices.SortFunc(out, func(a, b kind) int { return strings.Compare(a.name, b.name) })
	return out
}

// corpora are the metrics of whole corpora.
func corpora() []kind {
	generate, rolling := []string{Generate}, []string{Rolling}
	return []kind{
		{name: "brier_score", aggregation: "brier_score", outputs: []string{Choice}, value: metric.Mean, one: brier},
		{name: "ece", aggregation: "ece", outputs: []string{Choice}, value: metric.CalibrationError, one: calibration},
		{name: "perplexity", aggregation: "perplexity", outputs: []string{Likelihood}, value: metric.Perplexity, one: func(_ measure, a answered) ([]float64, error) {
			return one(a.scores[0].LogProb), nil
		}},
		{name: "word_perplexity", aggregation: "weighted_perplexity", outputs: rolling, value: metric.WeightedPerplexity, one: per(metric.Words)},
		{name: "byte_perplexity", aggregation: "weighted_perplexity", outputs: rolling, value: metric.WeightedPerplexity, one: per(func(s string) int { return len(s) })},
		{name: "bits_per_byte", aggregation: "bits_per_byte", outputs: rolling, value: metric.BitsPerByte, one: per(func(s string) int { return len(s) })},
		{name: "bleu", aggregation: "bleu", outputs: generate, higher: true, value: metric.BLEU, one: func(_ measure, a answered) ([]float64, error) {
			return metric.BLEUCounts(a.text, a.golds(), nil), nil
		}},
		{name: "chrf", aggregation: "chrf", outputs: generate, higher: true, value: metric.ChrF, one: func(_ measure, a answered) ([]float64, error) {
			return metric.ChrFCounts(a.text, a.golds(), 0), nil
		}},
		{name: "chrf++", aggregation: "chrf++", outputs: generate, higher: true, value: metric.ChrF, one: func(_ measure, a answered) ([]float64, error) {
			return metric.ChrFCounts(a.text, a.golds(), 2), nil
		}},
		{name: "cider", aggregation: "mean", outputs: generate, higher: true, value: metric.Mean, all: cider},
		{name: "wer", aggregation: "wer", outputs: generate, value: metric.Rate, one: transcript(metric.WER)},
		{name: "cer", aggregation: "cer", outputs: generate, value: metric.Rate, one: transcript(metric.CER)},
	}
}

func one(x float64) []float64 { return []float64{x} }

// golds returns the accepted texts.
func (q *question) golds() []string {
	out := slices.Clone(q.gold.texts)
	for _, i := range q.gold.indexes {
		if i >= 0 && i < len(q.choices) {
			out = append(out, q.choices[i])
		}
	}
	return out
}

// right judges the most likely choice, by the log likelihood over a length, or a single
// continuation by whether it is the most likely text.
func right(length func(q *question, i int) int) func(measure, answered) ([]float64, error) {
	return func(_ measure, a answered) ([]float64, error) {
		if a.choices == nil {
			return one(truth(a.scores[0].Greedy)), nil
		}
		per := make([]float64, len(a.scores))
		for i, s := range a.scores {
			per[i] = s.LogProb / float64(max(1, length(a.question, i)))
		}
		best := metric.Best(per)
		accepted, err := a.accepted()
		return one(truth(slices.Contains(accepted, best))), err
	}
}

// accepted returns the indexes of the right choices.
func (q *question) accepted() ([]int, error) {
	out := slices.Clone(q.gold.indexes)
	for _, text := range q.gold.texts {
		if i := slices.Index(q.choices, text); i >= 0 {
			out = append(out, i)
		}
	}
	if !slices.ContainsFunc(out, func(i int) bool { return i >= 0 && i < len(q.choices) }) {
		return nil, fmt.Errorf("doc_to_target of document %d: got %.80s, want one of %d choices", q.doc.id, q.gold.raw, len(q.choices))
	}
	return out, nil
}

func brier(_ measure, a answered) ([]float64, error) {
	accepted, err := a.accepted()
	if err != nil {
		return nil, err
	}
	return one(metric.Brier(a.logs(), accepted[0])), nil
}

// calibration judges the probability of the most likely choice, the greatest of the softmax
// of the log likelihoods.
func calibration(_ measure, a answered) ([]float64, error) {
	accepted, err := a.accepted()
	if err != nil {
		return nil, err
	}
	logs := a.logs()
	best, total := metric.Best(logs), 0.0
	for _, x := range logs {
		total += math.Exp(x - logs[best])
	}
	return metric.Calibration(1/total, slices.Contains(accepted, best)), nil
}

// logs returns the log likelihoods of the choices.
func (a answered) logs() []float64 {
	out := make([]float64, len(a.scores))
	for i, s := range a.scores {
		out[i] = s.LogProb
	}
	return out
}

// per pairs the log likelihood of a text with its length.
func per(length func(string) int) func(measure, answered) ([]float64, error) {
	return func(_ measure, a answered) ([]float64, error) {
		return []float64{a.scores[0].LogProb, float64(length(a.rest[0]))}, nil
	}
}

// transcript counts the errors of a transcript and the length of the reference, without what
// the options ignore.
func transcript(count func(reference, hypothesis string) (errors, length int)) func(measure, answered) ([]float64, error) {
	return func(m measure, a answered) ([]float64, error) {
		golds := a.golds()
		if len(golds) == 0 {
			golds = []string{""}
		}
		normal := func(s string) string {
			if m.exact.IgnorePunctuation {
				return metric.Transcript(s)
			}
			if m.exact.IgnoreCase {
				return strings.ToLower(s)
			}
			return s
		}
		errors, length := count(normal(golds[0]), normal(a.text))
		return []float64{float64(errors), float64(length)}, nil
	}
}

func rougeN(n int) func(string, []string) float64 {
	return func(text string, refs []string) float64 { return metric.RougeN(text, refs, n) }
}

func captionRouge(text string, refs []string) float64 {
	all := make([]string, len(refs))
	for i, r := range refs {
		all[i] = metric.Transcript(r)
	}
	return metric.CaptionRougeL(metric.Transcript(text), all)
}

func relaxed(text string, golds []string) float64 {
	best := 0.0
	for _, g := range golds {
		best = max(best, metric.Relaxed(text, g))
	}
	return best
}

// cider scores captions in lower case without punctuation.
func cider(all []answered) [][]float64 {
	captions := make([]metric.Caption, len(all))
	for i, a := range all {
		captions[i].Text = metric.Transcript(a.text)
		for _, g := range a.golds() {
			captions[i].References = append(captions[i].References, metric.Transcript(g))
		}
	}
	out := make([][]float64, len(all))
	for i, x := range metric.CIDEr(captions) {
		out[i] = one(x)
	}
	return out
}

// tools are the metrics of calls. Documents have the tools in function, and targets the
// accepted calls, as the Berkeley function-calling leaderboard writes them.
func tools() []kind {
	judge := func(score func(calls []metric.Call, functions []metric.Function, golds []metric.Gold) float64) func(measure, answered) ([]float64, error) {
		return func(_ measure, a answered) ([]float64, error) {
			var functions []metric.Function
			var golds []metric.Gold
			if err := json.Unmarshal(a.doc.fields["function"], &functions); err != nil {
				return nil, fmt.Errorf("document %d: function: %w", a.doc.id, err)
			}
			if err := json.Unmarshal(a.gold.raw, &golds); err != nil {
				return nil, fmt.Errorf("document %d: accepted calls: %w", a.doc.id, err)
			}
			return one(score(metric.Calls(a.text), functions, golds)), nil
		}
	}
	out := []kind{
		{name: "tool_call", one: judge(metric.ToolCalls)},
		{name: "tool_name", one: judge(func(c []metric.Call, _ []metric.Function, g []metric.Gold) float64 { return metric.ToolNames(c, g) })},
		{name: "tool_schema", one: judge(func(c []metric.Call, f []metric.Function, _ []metric.Gold) float64 { return metric.ToolSchema(c, f) })},
	}
	for i := range out {
		out[i].aggregation, out[i].outputs, out[i].higher, out[i].yes, out[i].value = "mean", []string{Generate}, true, true, metric.Mean
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
