// The first argument precision measures the cost of weight types: it writes a model in each type, by
// mm or by llama.cpp's library, and evaluates it with both engines on the same tokens of a
// text. It prints the file's size, both perplexities, their ratio, and the tokens per
// second of each engine.
//
//	bench precision -native DIR -text FILE [-dir DIR] [-types Q8_0,Q4_K_M] [-windows 24] [-threads 1]
//
// The model is that of scripts/fetch-native.sh, published as Q4_1: F32 holds the same
// numbers, and the other files are made from that.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/tools/libllama"
)

type precisionOptions struct {
	native, text, dir string
	types             []string
	windows, threads  int
	decode            int
}

// precisionMain compares the types of weights.
func precisionMain(flag *flag.FlagSet, args []string) {
	var o precisionOptions
	flag.StringVar(&o.native, "native", os.Getenv("MM_NATIVE_DIR"), "folder that scripts/fetch-native.sh filled")
	flag.StringVar(&o.text, "text", "../shared/data/tinystories/tinystories_sample.txt", "text of stories separated by <|endoftext|>")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the models")
	types := flag.String("types", "", "names of rows; all by default")
	flag.IntVar(&o.windows, "windows", 24, "windows of up to 512 tokens")
	flag.IntVar(&o.threads, "threads", 1, "threads")
	flag.IntVar(&o.decode, "decode", 64, "tokens that are written one by one")
	flag.Parse(args)
	if *types != "" {
		o.types = strings.Split(*types, ",")
	}
	if err := runPrecision(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "precision:", err)
		os.Exit(1)
	}
}

// row describes a file: its writer and llama.cpp's name of the type.
type row struct {
	name  string
	other bool // written by llama.cpp
	ftype uint32
	pure  bool // all matrices have the same type
}

// rows are sorted by decreasing size. llama.cpp's files show whether ours are as good.
var rows = []row{
	{name: "F32"}, {name: "F16"}, {name: "BF16"}, {name: "Q8_0"}, {name: "Q6_K"},
	{name: "Q5_1"}, {name: "Q5_K_M"}, {name: "Q5_K_M", other: true, ftype: 17}, {name: "Q5_K_S"}, {name: "Q5_0"},
	{name: "Q4_1"}, {name: "Q4_K_M"}, {name: "Q4_K_M", other: true, ftype: 15}, {name: "Q4_K_S"},
	{name: "IQ4_NL"}, {name: "IQ4_NL", other: true, ftype: 25}, {name: "Q4_0"}, {name: "IQ4_XS"}, {name: "IQ4_XS", other: true, ftype: 30},
	{name: "MXFP4", other: true, ftype: 38, pure: true},
	{name: "Q3_K_L"}, {name: "Q3_K_M"}, {name: "Q3_K_M", other: true, ftype: 12}, {name: "Q3_K_S"},
	{name: "Q2_K"}, {name: "Q2_K", other: true, ftype: 10},
}

func (r row) writer() string {
	if r.other {
		return "llama.cpp"
	}
	return "mm"
}

func runPrecision(ctx context.Context, o precisionOptions) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	other, err := libllama.Start(root, libllama.Libraries(o.native))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	text, err := os.ReadFile(o.text)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	full := filepath.Join(o.dir, "smollm2-F32.gguf")
	if err := write(ctx, libllama.SmolLM2(o.native), "F32", full); err != nil {
		return err
	}
	fmt.Printf("SmolLM2-135M-Instruct, %d windows of ≤ 512 tokens of %s, %d threads, %s\n", o.windows, filepath.Base(o.text), o.threads, cpu.Use())
	fmt.Println("| type | written by | MiB | mm | llama.cpp | ratio | mm tok/s | llama.cpp tok/s |\n|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if len(o.types) > 0 && !slices.Contains(o.types, r.name) {
			continue
		}
		path := full
		if r.name != "F32" {
			path = filepath.Join(o.dir, "smollm2-precision.gguf")
			if r.other {
				_, err = other.Do(libllama.Request{Op: "convert", Path: full, Out: path, Type: r.ftype, Pure: r.pure, Threads: o.threads})
			} else {
				err = write(ctx, full, r.name, path)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		if err := compare(ctx, o, other, r, path, string(text)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// write writes a file with mm by a recipe.
func write(ctx context.Context, from, recipe, to string) error {
	r, err := quantize.Recipe(recipe)
	if err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = quantize.Convert(ctx, in, info.Size(), quantize.ConvertOptions{Recipe: r}, out)
	return errors.Join(err, out.Close())
}

// compare evaluates a file with both engines.
func compare(ctx context.Context, o precisionOptions, other *libllama.Client, r row, path, text string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	m, err := infer.Load(path, infer.Options{Threads: o.threads})
	if err != nil {
		return err
	}
	defer m.Close()
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		return err
	}
	const size = 512
	windows := score.Cut(tok, text, score.Options{Window: size, Limit: o.windows, Separator: "<|endoftext|>"})
	ours, err := score.Evaluate(ctx, m, windows, tok, "f16")
	if err != nil {
		return err
	}
	const f16 = 1
	if _, err := other.Do(libllama.Request{Op: "load", Path: path, Threads: o.threads, Context: size, KV: f16}); err != nil {
		return err
	}
	sum := 0.0
	for _, w := range windows {
		reply, err := other.Do(libllama.Request{Op: "loss", Tokens: w.Tokens, Next: w.Next})
		if err != nil {
			return err
		}
		sum += reply.Loss
	}
	theirs := sum / float64(ours.Predictions)
	mine, others, err := rates(ctx, o, m, other)
	if err != nil {
		return err
	}
	if _, err := other.Do(libllama.Request{Op: "free"}); err != nil {
		return err
	}
	fmt.Printf("| %s | %s | %.1f | %.4f | %.4f | %.4f | %.0f | %.0f |\n", r.name, r.writer(), float64(info.Size())/(1<<20),
		math.Exp(ours.Loss), math.Exp(theirs), math.Exp(ours.Loss-theirs), mine, others)
	return nil
}

// rates returns the tokens per second of processor time of the engines, each the best of
// three turns.
func rates(ctx context.Context, o precisionOptions, m *infer.Model, other *libllama.Client) (ours, theirs float64, err error) {
	s, err := m.NewSession(infer.SessionOptions{Context: o.decode})
	if err != nil {
		return 0, 0, err
	}
	for range 3 {
		s.Truncate(0)
		cpu := libllama.CPUTime()
		for i := range o.decode {
			token := int32((i*7919 + 13) % m.Config().Vocab)
			if err := s.Feed(ctx, []int32{token}); err != nil {
				return 0, 0, err
			}
		}
		ours = max(ours, perSecond(o.decode, libllama.CPUTime()-cpu))
		if _, err := other.Do(libllama.Request{Op: "clear"}); err != nil {
			return 0, 0, err
		}
		reply, err := other.Do(libllama.Request{Op: "decode", Count: o.decode})
		if err != nil {
			return 0, 0, err
		}
		theirs = max(theirs, perSecond(o.decode, reply.CPU))
	}
	return ours, theirs, nil
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
