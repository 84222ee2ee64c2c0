// The first argument quality measures the cost of quantization methods: it writes a model by each
// recipe, with mm and with llama.cpp's library, without and with an importance matrix, and
// evaluates each file with mm on the same held-out text. It prints the file's size, the
// perplexity, the loss over the float model's and the divergence from its probabilities in
// nats per token, and mm's tokens per second of processor time.
//
//	bench quality -native DIR -text FILE [-model FILE.gguf] [-dir DIR] [-types Q4_0,Q4_K_M] [-ways mm,llama.cpp] [-windows 24] [-near 3]
//
// The text consists of stories; the first ones are for evaluation, the last ones for
// calibration.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/tools/libllama"
)

type qualityOptions struct {
	native, text, dir, model string
	types, ways              []string
	limit, threads           int
	calibrate, size, decoded int
	near                     int
}

// ways are the methods, in the order of the table.
var ways = []string{"llama.cpp", "mm", "llama.cpp imatrix", "mm imatrix", "mm awq", "mm gptq", "mm awq+gptq"}

const separator = "<|endoftext|>"

// qualityMain compares quantized files.
func qualityMain(flag *flag.FlagSet, args []string) {
	var o qualityOptions
	flag.StringVar(&o.native, "native", os.Getenv("MM_NATIVE_DIR"), "folder that scripts/fetch-native.sh filled")
	flag.StringVar(&o.text, "text", "../shared/data/tinystories/tinystories_sample.txt", "text of stories separated by <|endoftext|>")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the models")
	flag.StringVar(&o.model, "model", "", "GGUF file; SmolLM2-135M-Instruct by default")
	types := flag.String("types", "F16,BF16,Q8_0,Q6_K,Q5_1,Q5_K_M,Q5_K_S,Q5_0,Q4_1,Q4_K_M,Q4_K_S,IQ4_NL,Q4_0,IQ4_XS,Q3_K_L,Q3_K_M,Q3_K_S,Q2_K", "recipes")
	which := flag.String("ways", strings.Join(ways, ","), "who writes, and how")
	flag.IntVar(&o.limit, "windows", 14, "windows that are read")
	flag.IntVar(&o.size, "window", 512, "positions of a window at most")
	flag.IntVar(&o.calibrate, "calibrate", 32, "stories of calibration")
	flag.IntVar(&o.threads, "threads", 1, "threads")
	flag.IntVar(&o.decoded, "decode", 32, "tokens that are written one by one; 0: none")
	flag.IntVar(&o.near, "near", 0, "number of models near the model to quantize instead: each weight moved at random within its step")
	flag.Parse(args)
	o.types, o.ways = strings.Split(*types, ","), strings.Split(*which, ",")
	if err := runQuality(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// bench is the state shared by the rows.
type bench struct {
	qualityOptions
	other      *libllama.Client // nil until it is needed
	full, text string           // float model, evaluation text
	learnt     string           // calibration text
	importance *calibrated.Imatrix
	windows    []score.Window
	expected   [][]float32 // log probabilities of the float model, V a prediction
	losses     [][]float64 // of the float model, by window
	// rivals are llama.cpp's files of the present type, by method.
	rivals map[string]result
	// near holds how much a file of mm is worse than llama.cpp's, for each model near the
	// given one, by type and method: nats and KL.
	near map[string][][2]float64
}

func runQuality(ctx context.Context, o qualityOptions) (err error) {
	b := &bench{qualityOptions: o}
	defer func() {
		if b.other != nil {
			err = errors.Join(err, b.other.Close())
		}
	}()
	b.near = map[string][][2]float64{}
	if o.near == 0 {
		return b.table(ctx, 0)
	}
	for seed := range o.near {
		if err := b.table(ctx, uint64(seed)+1); err != nil {
			return err
		}
	}
	fmt.Printf("\n| over llama.cpp, %d models near it | nats | KL |\n|---|---|---|\n", o.near)
	for _, name := range o.types {
		for _, way := range o.ways {
			if pairs := b.near[name+" "+way]; len(pairs) > 0 {
				fmt.Printf("| %s %s | %s | %s |\n", name, way, spread(pairs, 0, 4), spread(pairs, 1, 5))
			}
		}
	}
	return nil
}

// spread returns mean and standard error of one number of the pairs.
func spread(pairs [][2]float64, which, digits int) string {
	sum, square, n := 0.0, 0.0, float64(len(pairs))
	for _, p := range pairs {
		sum += p[which]
	}
	for _, p := range pairs {
		square += (p[which] - sum/n) * (p[which] - sum/n)
	}
	return fmt.Sprintf("%+.*f ± %.*f", digits, sum/n, digits, math.Sqrt(square/max(1, n-1)/n))
}

// table quantizes a model with all methods: the given one, or one near it if seed is not 0.
func (b *bench) table(ctx context.Context, seed uint64) error {
	if err := b.prepare(ctx, seed); err != nil {
		return err
	}
	b.expected = nil
	r, err := b.measure(ctx, b.full)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d predictions, %d threads, %s\n", filepath.Base(b.full), len(b.expected), b.threads, cpu.Use())
	fmt.Println("| type | written by | MiB | perplexity | nats over F32 | KL | nats over llama.cpp | KL over llama.cpp | tok/s | seconds to write |\n|---|---|---|---|---|---|---|---|---|---|")
	fmt.Printf("| F32 | | %s | %.4f | | | | | %.0f | |\n", mebibytes(b.full), math.Exp(r.loss()), r.rate)
	for _, name := range b.types {
		recipe, err := quantize.Recipe(name)
		if err != nil {
			return err
		}
		b.rivals = map[string]result{}
		for _, way := range b.ways {
			if err := b.row(ctx, recipe, way, seed); err != nil {
				return fmt.Errorf("%s by %s: %w", name, way, err)
			}
		}
	}
	return nil
}

// prepare writes the float model and computes the calibration data.
func (b *bench) prepare(ctx context.Context, seed uint64) error {
	text, err := os.ReadFile(b.qualityOptions.text)
	if err != nil {
		return err
	}
	stories := strings.Split(string(text), separator)
	if len(stories) < 2*b.limit+b.calibrate {
		return fmt.Errorf("text too short: %d stories", len(stories))
	}
	b.text = strings.Join(stories[:2*b.limit], separator)
	last := stories[:len(stories)-1] // the last one may be truncated
	b.learnt = strings.Join(last[len(last)-b.calibrate:], separator)
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	from := b.model
	if from == "" {
		from = libllama.SmolLM2(b.native)
	}
	name, _, _ := strings.Cut(filepath.Base(from), ".")
	b.full = filepath.Join(b.dir, name+"-F32.gguf")
	if seed == 0 {
		recipe, err := quantize.Recipe("F32")
		if err != nil {
			return err
		}
		if err := convert(ctx, from, b.full, quantize.ConvertOptions{Recipe: recipe, Threads: b.threads}); err != nil {
			return err
		}
	} else {
		b.full = filepath.Join(b.dir, name+"-near-F32.gguf")
		if err := moved(from, b.full, seed); err != nil {
			return err
		}
	}
	m, tok, err := loadModel(b.full, b.threads)
	if err != nil {
		return err
	}
	defer m.Close()
	b.size = min(b.size, m.Config().Context)
	b.windows = score.Cut(tok, b.text, score.Options{Window: b.size, Limit: b.limit, Separator: separator})
	if !slices.ContainsFunc(b.ways, func(way string) bool { return strings.Contains(way, " ") }) {
		return nil
	}
	cpu := libllama.CPUTime()
	b.importance, err = score.Importance(ctx, m, tok, b.learnt, score.Reading{Window: b.size, Separator: separator, Name: filepath.Base(b.qualityOptions.text)})
	fmt.Printf("importance matrix of %d stories: %.1f s\n", b.calibrate, (libllama.CPUTime() - cpu).Seconds())
	return err
}

// row writes a file with a method and measures it.
func (b *bench) row(ctx context.Context, recipe quant.Recipe, way string, seed uint64) error {
	path := filepath.Join(b.dir, "quality.gguf")
	who, how, _ := strings.Cut(way, " ")
	start, cpu := time.Now(), libllama.CPUTime()
	var took time.Duration
	switch who {
	case "mm":
		opt := quantize.ConvertOptions{Recipe: recipe, Threads: b.threads}
		if how != "" {
			opt.Importance = b.importance
		}
		opt.Scale = strings.Contains(how, "awq")
		if strings.Contains(how, "gptq") {
			h, done, err := b.hessians(recipe)
			if err != nil {
				return err
			}
			defer done()
			opt.Hessian = h.Of
		}
		if err := convert(ctx, b.full, path, opt); err != nil {
			return err
		}
		took = libllama.CPUTime() - cpu
	default:
		r := libllama.Request{Op: "convert", Path: b.full, Out: path, Type: recipe.FileType, Threads: b.threads}
		if how == "imatrix" {
			r.Means = make(map[string][]float32)
			for _, name := range b.importance.Names() {
				e := b.importance.Entries[name]
				if !strings.HasPrefix(name, "blk.") {
					continue // as llama.cpp's program does
				}
				means, err := b.importance.Means(name, len(e.Sums)/len(e.Counts), len(e.Counts))
				if err != nil {
					return err
				}
				r.Means[name] = means
			}
		}
		if b.other == nil {
			root, err := os.Getwd()
			if err != nil {
				return err
			}
			if b.other, err = libllama.Start(root, libllama.Libraries(b.native)); err != nil {
				return err
			}
		}
		if _, err := b.other.Do(r); err != nil {
			return err
		}
		took = time.Since(start)
	}
	m, err := b.measure(ctx, path)
	if err != nil {
		return err
	}
	over, divergent := "", ""
	if who != "mm" {
		b.rivals[how] = m
	} else if r, ok := b.rival(how); ok {
		over, divergent = paired(m.losses, r.losses, 4), paired(m.divergences, r.divergences, 5)
		if key := recipe.Name + " " + way; seed > 0 {
			b.near[key] = append(b.near[key], [2]float64{m.loss() - r.loss(), mean(m.divergences) - mean(r.divergences)})
		}
	}
	fmt.Printf("| %s | %s | %s | %.4f | %s | %.5f | %s | %s | %.0f | %.0f |\n", recipe.Name, way, mebibytes(path),
		math.Exp(m.loss()), paired(m.losses, b.losses, 4), mean(m.divergences), over, divergent, m.rate, took.Seconds())
	return nil
}

// rival returns llama.cpp's file to compare with: of the same method, or of its best one.
func (b *bench) rival(how string) (result, bool) {
	for _, way := range []string{how, "imatrix", ""} {
		if r, ok := b.rivals[way]; ok && (way == how || how != "") {
			return r, true
		}
	}
	return result{}, false
}

// hessians evaluates the float model on the calibration text.
func (b *bench) hessians(recipe quant.Recipe) (*score.Hessians, func() error, error) {
	m, tok, err := loadModel(b.full, b.threads)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, t := range m.File().Tensors {
		if strings.HasPrefix(t.Name, "blk.") && len(t.Dims) == 2 {
			names = append(names, t.Name)
		}
	}
	h, err := score.NewHessians(m, tok, b.learnt, names, 0, score.Reading{Window: b.size, Separator: separator})
	return h, m.Close, err
}

// result holds the figures of a file, by window.
type result struct {
	losses      [][]float64 // nats per prediction
	divergences [][]float64 // KL from the float model in nats per prediction
	rate        float64     // tokens per second of processor time
}

// loss returns the mean loss.
func (r result) loss() float64 { return mean(r.losses) }

// mean returns the mean over all predictions.
func mean(x [][]float64) (sum float64) {
	n := 0
	for _, w := range x {
		n += len(w)
		for _, v := range w {
			sum += v
		}
	}
	return sum / float64(n)
}

// paired returns the mean of a - b over all predictions with its standard error.
// Predictions in a window depend on each other, windows do not: the error is that of a
// ratio of sums of windows (Cochran, Sampling Techniques, 6.4).
func paired(a, b [][]float64, digits int) string {
	if len(b) == 0 {
		return ""
	}
	all, n := mean(a)-mean(b), 0
	square := 0.0
	for i := range a {
		rest := 0.0
		for j := range a[i] {
			rest += a[i][j] - b[i][j] - all
		}
		square += rest * rest
		n += len(a[i])
	}
	count := float64(len(a))
	sure := math.Sqrt(square*count/max(1, count-1)) / float64(n)
	return fmt.Sprintf("%+.*f ± %.*f", digits, all, digits, sure)
}

// measure evaluates a file with mm. The first file is the reference for the others.
func (b *bench) measure(ctx context.Context, path string) (r result, err error) {
	m, _, err := loadModel(path, b.threads)
	if err != nil {
		return r, err
	}
	defer m.Close()
	s, err := m.NewSession(infer.SessionOptions{Context: b.size})
	if err != nil {
		return r, err
	}
	first, n := b.expected == nil, 0
	for _, w := range b.windows {
		s.Truncate(0)
		var losses, divergences []float64
		err := s.Predict(ctx, w.Tokens, func(i int, logits []float32) {
			next := w.Next
			if i+1 < len(w.Tokens) {
				next = w.Tokens[i+1]
			}
			p := slices.Clone(logits)
			logSoftmax(p)
			losses = append(losses, -float64(p[next]))
			if first {
				b.expected = append(b.expected, p)
			} else {
				divergences = append(divergences, divergence(b.expected[n], p))
			}
			n++
		})
		if err != nil {
			return r, err
		}
		r.losses, r.divergences = append(r.losses, losses), append(r.divergences, divergences)
	}
	if first {
		b.losses = r.losses
	}
	if b.decoded == 0 {
		return r, nil
	}
	for range 3 {
		s.Truncate(0)
		cpu := libllama.CPUTime()
		for i := range b.decoded {
			if err := s.Feed(ctx, []int32{int32((i*7919 + 13) % m.Config().Vocab)}); err != nil {
				return r, err
			}
		}
		r.rate = max(r.rate, float64(b.decoded)/(libllama.CPUTime()-cpu).Seconds())
	}
	return r, nil
}

// logSoftmax converts logits to log probabilities.
func logSoftmax(x []float32) {
	most, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - most))
	}
	total := most + float32(math.Log(sum))
	for i := range x {
		x[i] -= total
	}
}

// divergence returns Σ p·(ln p - ln q) of log probabilities.
func divergence(p, q []float32) (sum float64) {
	for i, v := range p {
		if v > -20 { // less likely tokens do not matter
			sum += math.Exp(float64(v)) * float64(v-q[i])
		}
	}
	return sum
}

func loadModel(path string, threads int) (*infer.Model, *tokenizer.Tokenizer, error) {
	m, err := infer.Load(path, infer.Options{Threads: threads})
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, tok, nil
}

// convert writes a file with mm.
func convert(ctx context.Context, from, to string, opt quantize.ConvertOptions) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = quantize.Convert(ctx, in, size, opt, out)
	return errors.Join(err, out.Close())
}

func mebibytes(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%.1f", float64(info.Size())/(1<<20))
}
