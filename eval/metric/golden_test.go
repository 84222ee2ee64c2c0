package metric_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"mm-abi.org/mm/eval/metric"
)

// least is the number of cases that each metric is compared on.
const least = 200

// row is a case: a JSON array of different types.
type row []json.RawMessage

// scan decodes the elements of a row.
func (r row) scan(t *testing.T, into ...any) {
	t.Helper()
	if len(r) != len(into) {
		t.Fatalf("got %d elements, want %d", len(r), len(into))
	}
	for i, v := range into {
		if err := json.Unmarshal(r[i], v); err != nil {
			t.Fatalf("element %d, %s: %v", i, r[i], err)
		}
	}
}

// read decodes a file that scripts/metrics.py wrote.
func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// enough requires a number of cases.
func enough(t *testing.T, cases []row) []row {
	t.Helper()
	if len(cases) < least {
		t.Fatalf("got %d cases, want %d", len(cases), least)
	}
	return cases
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// add adds the numbers of an item.
func add(sum, item []float64) []float64 {
	if sum == nil {
		sum = make([]float64, len(item))
	}
	for i, x := range item {
		sum[i] += x
	}
	return sum
}

func TestTranslation(t *testing.T) {
	var g struct {
		Cases  []row
		Corpus []float64
	}
	read(t, "translation", &g)
	var bleu, chrf, chrfpp []float64
	for _, c := range enough(t, g.Cases) {
		var hyp string
		var refs []string
		var wantBLEU, wantChrF, wantPlus float64
		var rouge []float64
		c.scan(t, &hyp, &refs, &wantBLEU, &wantChrF, &wantPlus, &rouge)
		one, chars, words := metric.BLEUCounts(hyp, refs, nil), metric.ChrFCounts(hyp, refs, 0), metric.ChrFCounts(hyp, refs, 2)
		near(t, "BLEU of "+hyp, metric.BLEU(one, 1), wantBLEU)
		near(t, "chrF of "+hyp, metric.ChrF(chars, 1), wantChrF)
		near(t, "chrF++ of "+hyp, metric.ChrF(words, 1), wantPlus)
		near(t, "ROUGE-1 of "+hyp, metric.RougeN(hyp, refs[:1], 1), rouge[0])
		near(t, "ROUGE-2 of "+hyp, metric.RougeN(hyp, refs[:1], 2), rouge[1])
		near(t, "ROUGE-L of "+hyp, metric.RougeL(hyp, refs[:1]), rouge[2])
		bleu, chrf, chrfpp = add(bleu, one), add(chrf, chars), add(chrfpp, words)
	}
	near(t, "BLEU", metric.BLEU(bleu, 1), g.Corpus[0])
	near(t, "chrF", metric.ChrF(chrf, 1), g.Corpus[1])
	near(t, "chrF++", metric.ChrF(chrfpp, 1), g.Corpus[2])
}

func TestSpeech(t *testing.T) {
	var g struct {
		Cases  []row
		Corpus []float64
	}
	read(t, "speech", &g)
	words, chars := make([]float64, 2), make([]float64, 2)
	for _, c := range enough(t, g.Cases) {
		var ref, hyp string
		var wer, cer float64
		c.scan(t, &ref, &hyp, &wer, &cer)
		e, n := metric.WER(ref, hyp)
		w := []float64{float64(e), float64(n)}
		e, n = metric.CER(ref, hyp)
		r := []float64{float64(e), float64(n)}
		near(t, "WER of "+hyp, metric.Rate(w, 1), wer)
		near(t, "CER of "+hyp, metric.Rate(r, 1), cer)
		words, chars = add(words, w), add(chars, r)
	}
	near(t, "WER", metric.Rate(words, 1), g.Corpus[0])
	near(t, "CER", metric.Rate(chars, 1), g.Corpus[1])
}

func TestCaptions(t *testing.T) {
	var g struct {
		Cases  []row
		Corpus []float64
	}
	read(t, "captions", &g)
	var all []metric.Caption
	var ciders, rouges []float64
	var bleu []float64
	for _, c := range enough(t, g.Cases) {
		var one metric.Caption
		var cider, rouge float64
		c.scan(t, &one.Text, &one.References, &cider, &rouge)
		all, ciders, rouges = append(all, one), append(ciders, cider), append(rouges, rouge)
		bleu = add(bleu, metric.BLEUCounts(one.Text, one.References, metric.Fields))
	}
	mean, rouge := 0.0, 0.0
	for i, got := range metric.CIDEr(all) {
		near(t, "CIDEr-D of "+all[i].Text, got, ciders[i])
		r := metric.CaptionRougeL(all[i].Text, all[i].References)
		near(t, "ROUGE-L of "+all[i].Text, r, rouges[i])
		mean, rouge = mean+got/float64(len(all)), rouge+r/float64(len(all))
	}
	near(t, "CIDEr-D", mean, g.Corpus[0])
	near(t, "ROUGE-L", rouge, g.Corpus[1])
	for n := range 4 {
		if got, want := metric.BLEUn(n+1)(bleu, 1), g.Corpus[2+n]; math.Abs(got-want) > 1e-7 { // the reference adds 1e-9
			t.Errorf("BLEU-%d: got %v, want %v", n+1, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	var g map[string][]row
	read(t, "answers", &g)
	for _, c := range enough(t, g["relaxed"]) {
		var p, gold string
		var want bool
		c.scan(t, &p, &gold, &want)
		if got := metric.Relaxed(p, gold) == 1; got != want {
			t.Errorf("relaxed accuracy of %q, gold %q: got %v", p, gold, got)
		}
	}
	for _, c := range enough(t, g["anls"]) {
		var p string
		var golds []string
		var official, loose float64
		c.scan(t, &p, &golds, &official, &loose)
		near(t, "ANLS of "+p, metric.ANLS(p, golds), official)
		near(t, "ANLS of lmms-eval of "+p, metric.ANLSLoose(p, golds), loose)
	}
	for _, c := range enough(t, g["vqa"]) {
		var p string
		var people []string
		var want float64
		c.scan(t, &p, &people, &want)
		near(t, "VQA accuracy of "+p, metric.VQA(p, people), want)
	}
	for _, c := range enough(t, g["exact"]) {
		var p, gold string
		var ignore []string
		var opt metric.Exact
		var want bool
		c.scan(t, &p, &gold, &ignore, &opt.IgnoreCase, &opt.IgnorePunctuation, &opt.IgnoreASCIIDigits, &want)
		for _, i := range ignore {
			opt.Ignore = append(opt.Ignore, regexp.MustCompile(i))
		}
		if got := metric.ExactMatch(p, []string{gold}, opt) == 1; got != want {
			t.Errorf("exact match of %q, gold %q, without %q, %+v: got %v", p, gold, ignore, opt, got)
		}
	}
	for _, c := range enough(t, g["squad"]) {
		var p string
		var golds []string
		var exact bool
		var f1 float64
		c.scan(t, &p, &golds, &exact, &f1)
		if got := metric.SquadExact(p, golds) == 1; got != exact {
			t.Errorf("SQuAD exact match of %q, golds %q: got %v", p, golds, got)
		}
		near(t, "SQuAD F1 of "+p, metric.SquadF1(p, golds), f1)
	}
}

func TestTools(t *testing.T) {
	var g []row
	read(t, "tools", &g)
	for i, c := range enough(t, g) {
		var functions []metric.Function
		var golds []metric.Gold
		var want bool
		c.scan(t, &functions, new(any), &golds, &want)
		if got := metric.ToolCalls(metric.Calls(string(c[1])), functions, golds) == 1; got != want {
			t.Errorf("case %d: got %v: %s of %s, accepted %s", i, got, c[1], c[0], c[2])
		}
	}
}

func TestLikelihoods(t *testing.T) {
	var g struct{ Choice, Rolling []row }
	read(t, "likelihoods", &g)
	for _, c := range enough(t, g.Choice) {
		var logs []float64
		var choices []string
		var gold int
		var want []bool
		var brier float64
		c.scan(t, &logs, &choices, &gold, &want, &brier)
		var chars, bytes []int
		for _, s := range choices {
			chars, bytes = append(chars, len([]rune(s))), append(bytes, len(s))
		}
		got := []bool{metric.Best(logs) == gold, metric.Best(metric.Per(logs, chars)) == gold, metric.Best(metric.Per(logs, bytes)) == gold}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%v of %q, gold %d: got %v, want %v", logs, choices, gold, got, want)
			}
		}
		near(t, "Brier score", metric.Brier(logs, gold), brier)
	}
	for _, c := range enough(t, g.Rolling) {
		var logs []float64
		var docs []string
		var ppl, word, byte, bits float64
		c.scan(t, &logs, &docs, &ppl, &word, &byte, &bits)
		var words, bytes []float64
		for i, d := range docs {
			words = add(words, []float64{logs[i], float64(metric.Words(d))})
			bytes = add(bytes, []float64{logs[i], float64(len(d))})
		}
		near(t, "perplexity", metric.Perplexity(words, len(docs)), ppl)
		near(t, "perplexity of words", metric.WeightedPerplexity(words, 1), word)
		near(t, "perplexity of bytes", metric.WeightedPerplexity(bytes, 1), byte)
		near(t, "bits a byte", metric.BitsPerByte(bytes, 1), bits)
	}
}

func TestCalibration(t *testing.T) {
	var g []row
	read(t, "calibration", &g)
	for _, c := range enough(t, g) {
		var p []float64
		var right []int
		var want float64
		c.scan(t, &p, &right, &want)
		var sum []float64
		for i, x := range p {
			sum = add(sum, metric.Calibration(x, right[i] == 1))
		}
		near(t, "calibration error", metric.CalibrationError(sum, len(p)), want)
	}
}

func TestStatistics(t *testing.T) {
	var g struct{ Wilson, McNemar, Holm []row }
	read(t, "statistics", &g)
	for _, c := range enough(t, g.Wilson) {
		var k, n, low, high float64
		c.scan(t, &k, &n, &low, &high)
		got := metric.Wilson(k/n, n)
		near(t, "lower bound", got.Low, low)
		near(t, "upper bound", got.High, high)
	}
	for _, c := range enough(t, g.McNemar) {
		var b, d int
		var p float64
		c.scan(t, &b, &d, &p)
		near(t, "McNemar", metric.McNemar(b, d), p)
	}
	for _, c := range enough(t, g.Holm) {
		var p, want []float64
		c.scan(t, &p, &want)
		for i, got := range metric.Holm(p) {
			near(t, "Holm", got, want[i])
		}
	}
}
