// Command latency measures the response times of a build against the playbook's budgets
// (§12): the first token of a text, a caption, a question about a chart, five seconds of
// audio. Cold is a new mm run process, from its start to its first byte and to its end,
// without caches; warm is the second and later answers of a loaded process to new inputs.
// It prints minimum and median.
//
//	latency -mm PATH -build REF [-runs 7] [-backend NAME…]
//
// With -clients it measures concurrent answers of one runner instead: tokens a second of
// all, the time to the first token, gaps between tokens, memory. Each client asks -asks
// questions, one after another; their system prompts are distinct, or shared with -shared.
//
//	latency -clients 1,4,16,64 -build MODEL.gguf [-shared] [-compare]
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// question is a request with its time budget.
type question struct {
	name, prompt string
	input        abi.Modality // if empty, text only
	tokens       int          // maximum; an answer may be shorter
	budget       time.Duration
	first        bool // the budget is that of the first token
}

func questions() []question {
	return []question{
		{"text, first token", "Once upon a time", "", 16, 300 * time.Millisecond, true},
		{"caption of 256 × 256", "what is in the picture?", abi.Image, 24, 900 * time.Millisecond, false},
		{"chart question", "which bar is the highest?", abi.Image, 48, 1800 * time.Millisecond, false},
		{"5 s of sound", "what do you hear?", abi.Audio, 16, time.Second, false},
	}
}

func main() {
	mm := flag.String("mm", "mm", "program mm, with mm-native in its folder")
	build := flag.String("build", "", "a build in the store of MM_HOME")
	target := flag.String("target", "laptop", "of the build")
	runs := flag.Int("runs", 7, "of each question")
	core := flag.String("core", "core", "engine of the core")
	functions := flag.String("functions", "onnx", "engine of encoders and projectors")
	clients := flag.String("clients", "", "numbers of concurrent clients, separated by commas")
	var c crowd
	flag.IntVar(&c.asks, "asks", 2, "questions of each client")
	flag.IntVar(&c.tokens, "tokens", 128, "of each answer")
	flag.IntVar(&c.prompt, "prompt", 360, "words of each prompt")
	flag.StringVar(&c.text, "text", "README.md", "a file whose words the prompts are")
	flag.IntVar(&c.threads, "threads", 0, "of the core")
	flag.BoolVar(&c.shared, "shared", false, "all prompts begin the same")
	flag.IntVar(&c.stall, "stall", 0, "words of a prompt that is read during one answer, instead of clients")
	flag.BoolVar(&c.compare, "compare", false, "compare the answers of all numbers of clients")
	url := flag.String("url", "", "base of the OpenAI API of a server to ask instead, such as http://127.0.0.1:8080/v1")
	label := flag.String("label", "", "of the rows")
	pid := flag.Int("pid", 0, "of the server")
	flag.Parse()
	if *url != "" {
		if err := c.load(context.Background(), *url, *label, *pid, *clients); err != nil {
			fmt.Fprintln(os.Stderr, "latency:", err)
			os.Exit(1)
		}
		return
	}
	if *clients != "" || c.stall > 0 {
		if err := c.run(context.Background(), *build, *target, *clients); err != nil {
			fmt.Fprintln(os.Stderr, "latency:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(context.Background(), *mm, *build, *target, *runs, *core, *functions); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, mm, ref, target string, runs int, core, functions string) error {
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := workspace.Open(workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	b, err := w.Runnable(ctx, ref, workspace.RunOptions{Target: target})
	if err != nil {
		return err
	}
	backends := map[string]string{}
	seen := map[abi.Modality]bool{"": true}
	for _, m := range b.Assembly.Modalities {
		backends[m.Encoder.Name], backends[m.Projector.Name], seen[m.Modality] = functions, functions, true
	}
	r, err := runner.Open(ctx, b, runner.Options{
		Engines: []runtimes.Engine{engines.Core{}, engines.ONNX{}, engines.LlamaCPP{Home: workspace.DefaultHome}, engines.ONNXRuntime{Home: workspace.DefaultHome}},
		Engine:  core, Backends: backends,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Printf("%s on %s and %s, ms: least (median) of %d\n", ref, core, functions, runs)
	fmt.Printf("  %-24s %-10s %-20s %-20s %s\n", "", "tokens", "cold", "warm", "budget")
	for _, q := range questions() {
		if !seen[q.input] {
			continue
		}
		var cold, warm []time.Duration
		least, most := q.tokens, 0
		for i := range runs + 1 {
			file, err := input(dir, q.input, i)
			if err != nil {
				return err
			}
			d, err := process(ctx, mm, ref, target, q, file, core, backends)
			if err != nil {
				return err
			}
			cold = append(cold, d)
			d, count, err := answer(ctx, r, q, file)
			if err != nil {
				return err
			}
			least, most = min(least, count), max(most, count)
			if i > 0 { // the first one loads the model
				warm = append(warm, d)
			}
		}
		tokens := fmt.Sprint(most)
		if least < most {
			tokens = fmt.Sprintf("%d–%d", least, most)
		}
		fmt.Printf("  %-24s %-10s %-20s %-20s %d %s\n", q.name, tokens, spread(cold[1:]), spread(warm), q.budget.Milliseconds(), verdict(q.budget, cold[1:], warm))
	}
	return nil
}

func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.1f (%.1f)", ms(all[0]), ms(all[len(all)/2]))
}

func verdict(budget time.Duration, lists ...[]time.Duration) string {
	for _, l := range lists {
		if l[len(l)/2] > budget {
			return "missed"
		}
	}
	return "kept"
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// answer asks a loaded runner and returns the time and the number of tokens. An empty
// answer ends at the end.
func answer(ctx context.Context, r *runner.Runner, q question, file string) (time.Duration, int, error) {
	req := runner.Request{Preferences: runner.Preferences{MaxTokens: q.tokens}}
	if q.input != "" {
		req.Inputs = append(req.Inputs, talk.Part{Type: q.input, Path: file})
	}
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Text, Text: q.prompt})
	start, first := time.Now(), time.Duration(0)
	a, err := r.Answer(ctx, req, func(string) error {
		if first == 0 {
			first = time.Since(start)
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	if q.first && first > 0 {
		return first, a.Timings.Generated, nil
	}
	return time.Since(start), a.Timings.Generated, nil
}

// process asks a new process.
func process(ctx context.Context, mm, ref, target string, q question, file, core string, backends map[string]string) (time.Duration, error) {
	args := []string{"run", ref, "--target", target, "--quiet", "--no-cache", "-n", strconv.Itoa(q.tokens), "--backend", core}
	for part, name := range backends {
		args = append(args, "--backend", part+"="+name)
	}
	if q.input != "" {
		args = append(args, "--"+string(q.input), file)
	}
	cmd := exec.CommandContext(ctx, mm, append(args, "--prompt", q.prompt)...)
	var fault strings.Builder
	cmd.Stderr = &fault
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	first := time.Since(start)
	if err == nil {
		_, err = io.Copy(io.Discard, out)
	}
	if waited := cmd.Wait(); waited != nil {
		return 0, fmt.Errorf("%w: %s", waited, fault.String())
	}
	if q.first {
		return first, err
	}
	return time.Since(start), err
}

// input writes the image or audio file of a run, a different one for each.
func input(dir string, in abi.Modality, i int) (string, error) {
	switch in {
	case abi.Image:
		const side = 256
		m := image.NewRGBA(image.Rect(0, 0, side, side))
		for y := range side {
			for x := range side {
				c := color.RGBA{255, 255, 255, 255}
				if bar := x / 32; bar%2 == 1 && y > 20+(bar*53+i*31)%200 {
					c = color.RGBA{uint8(40 * bar), 60, 180, 255}
				}
				m.SetRGBA(x, y, c)
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			return "", err
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.png", i))
		return path, os.WriteFile(path, b.Bytes(), 0o600)
	case abi.Audio:
		w := &preprocess.Wave{Rate: 16000, Samples: make([]float32, 5*16000)}
		for j := range w.Samples {
			w.Samples[j] = float32(math.Sin(float64(j)*(0.02+0.003*float64(i)))) / 3
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.wav", i))
		return path, os.WriteFile(path, preprocess.EncodeWAV(w), 0o600)
	}
	return "", nil
}
