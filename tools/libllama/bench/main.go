// Command bench compares mm's engine with llama.cpp's library on the same file with the
// same number of threads, alternately, and reports medians of several rounds. It prints
// tokens per second, their ratio, and the share of what the machine reaches in the same
// run: for decoding the memory bandwidth, for prefill the rate of float32 fused
// multiply-adds.
//
//	bench -native DIR [-dir DIR] [-models 135M-Q8_0,1.1B-Q8_0] [-threads 1,2] [-busy 2] [-levels avx2,vnni]
//
//	bench -start -native DIR [-models 135M-Q8_0,FILE.gguf] [-threads 2]
//
// The second form measures processes from start to the first token, with the file in the
// page cache (warm) and not (cold): the engine alone and, if the file has a tokenizer, mm
// run.
//
// With -levels it runs once per level of mm's kernels (MM_CPU), against the build of
// llama.cpp's kernels for the same instructions.
//
// Models have the shapes of SmolLM2-135M and of a Llama with 1.1 billion parameters, and
// seeded random weights. They are written to -dir once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/tools/libllama"
)

func main() {
	others := map[string]func(*flag.FlagSet, []string){"overhead": overheadMain, "precision": precisionMain, "quality": qualityMain}
	if len(os.Args) > 1 && others[os.Args[1]] != nil {
		others[os.Args[1]](flag.NewFlagSet(os.Args[1], flag.ExitOnError), os.Args[2:])
		return
	}
	var o options
	flag.StringVar(&o.native, "native", os.Getenv("MM_NATIVE_DIR"), "folder that scripts/fetch-native.sh filled; empty measures mm alone")
	flag.StringVar(&o.dir, "dir", ".bench", "folder for the models")
	models := flag.String("models", "135M-Q8_0,135M-Q4_0,135M-F16,1.1B-Q8_0", "models, SHAPE-TYPE")
	threads := flag.String("threads", "1,2", "numbers of threads")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the median is printed")
	flag.IntVar(&o.prefill, "prefill", 256, "tokens that are read at once")
	flag.IntVar(&o.decode, "decode", 64, "tokens that are written one by one")
	flag.IntVar(&o.depth, "depth", 0, "tokens in the context before decoding")
	flag.IntVar(&o.busy, "busy", 0, "also decode while so many other processes compute without pause")
	levels := flag.String("levels", "", "levels of kernels (MM_CPU), one run for each; empty is the machine's best")
	start := flag.Bool("start", false, "measure from the start of a process to its first token")
	child := flag.String("first", "", "load the file, read a prompt, write a byte")
	hog := flag.Bool("hog", false, "compute until standard input ends")
	flag.Parse()
	if *hog {
		spin()
	}
	o.models = strings.Split(*models, ",")
	for _, s := range strings.Split(*threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			fail(fmt.Errorf("bad number of threads %q", s))
		}
		o.threads = append(o.threads, n)
	}
	switch {
	case *child != "":
		if err := first(*child, o.threads[0]); err != nil {
			fail(err)
		}
		return
	case *start:
		if err := o.start(os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	err := cpu.Check()
	if err == nil && *levels != "" {
		err = runLevels(strings.Split(*levels, ","))
	} else if err == nil {
		err = run(o)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

type options struct {
	native, dir                    string
	models                         []string
	threads                        []int
	rounds, prefill, decode, depth int
	busy                           int
}

func run(o options) error {
	var other *libllama.Client
	if o.native != "" {
		root, err := os.Getwd()
		if err != nil {
			return err
		}
		libs, variant, err := librariesFor(cpu.Use(), libllama.Libraries(o.native))
		if err != nil {
			return err
		}
		defer os.RemoveAll(libs)
		if other, err = libllama.Start(root, libs); err != nil {
			return err
		}
		defer other.Close()
		fmt.Printf("llama.cpp: %s\n", variant)
	}
	fmt.Printf("level %s, load %s\n", cpu.Use(), load())
	fma := peak()
	fmt.Printf("fused multiply-adds, 1 thread: %.1f GFLOP/s\n", fma)
	bandwidth := make(map[int]float64)
	for _, n := range o.threads {
		bandwidth[n] = readBandwidth(n)
		fmt.Printf("memory read, %d threads: %.1f GB/s\n", n, bandwidth[n])
	}
	fmt.Printf("%-10s %7s %-8s %10s %10s %6s %8s %8s\n", "model", "threads", "", "mm tok/s", "llama.cpp", "ratio", "GB, Gop", "of peak")
	for _, model := range o.models {
		path, err := modelFile(o.dir, o.native, model)
		if err != nil {
			return err
		}
		for _, n := range o.threads {
			if err := measure(o, other, model, path, n, bandwidth[n], fma*float64(n)); err != nil {
				return fmt.Errorf("%s: %w", model, err)
			}
		}
	}
	return nil
}

// settle is the pause before each turn. llama.cpp's threads spin for up to a quarter of a
// second after their work, which would cost the other engine a core.
const settle = 500 * time.Millisecond

// measure runs both engines alternately on a file.
func measure(o options, other *libllama.Client, name, path string, threads int, bandwidth, fma float64) error {
	// Without prefixes: each round reads the same text.
	m, err := infer.Load(path, infer.Options{Threads: threads, Prefixes: -1})
	if err != nil {
		return err
	}
	defer m.Close()
	size := o.depth + max(o.prefill, o.decode) + 8
	s, err := m.NewSession(infer.SessionOptions{Context: size})
	if err != nil {
		return err
	}
	if other != nil {
		const f16 = 1
		if _, err := other.Do(libllama.Request{Op: "load", Path: path, Threads: threads, Context: size, KV: f16}); err != nil {
			return err
		}
		defer other.Do(libllama.Request{Op: "free"})
	}
	ours, theirs := make(map[string][]timing), make(map[string][]timing)
	for round := range o.rounds + 1 {
		for _, what := range []string{"prefill", "decode"} {
			count := o.prefill
			if what == "decode" {
				count = o.decode
			}
			if count == 0 {
				continue
			}
			time.Sleep(settle)
			a, err := our(s, what, count, o.depth)
			if err != nil {
				return err
			}
			var b timing
			if other != nil {
				time.Sleep(settle)
				if b, err = their(other, what, count, o.depth); err != nil {
					return err
				}
			}
			if round > 0 { // the first warms up
				ours[what], theirs[what] = append(ours[what], a), append(theirs[what], b)
			}
		}
	}
	for _, what := range []string{"prefill", "decode"} {
		if len(ours[what]) == 0 {
			continue
		}
		a, b := median(ours[what]), median(theirs[what])
		fmt.Printf("%-10s %7d %-8s %10.1f %10.1f %6.2f", name, threads, what, a.wall, b.wall, a.wall/b.wall)
		if what == "decode" {
			gb := a.wall * float64(m.WeightBytes()) / 1e9
			fmt.Printf(" %8.1f %7.0f%%", gb, 100*gb/bandwidth)
		} else {
			gop := a.wall * operations(m.Config()) / 1e9
			fmt.Printf(" %8.1f %7.0f%%", gop, 100*gop/fma)
		}
		fmt.Printf("   per CPU second %.1f, %.1f: %.2f", a.cpu, b.cpu, a.cpu/b.cpu)
		a, b = best(ours[what]), best(theirs[what])
		fmt.Printf("   best %.1f, %.1f: %.2f\n", a.wall, b.wall, a.wall/b.wall)
	}
	if o.busy == 0 || len(ours["decode"]) == 0 {
		return nil
	}
	return crowded(o, other, s, name, threads, median(ours["decode"]).wall, median(theirs["decode"]).wall)
}

// crowded decodes while other processes compute, and compares the rates with those without.
// A fair scheduler gives the threads of this process their share of the cores.
func crowded(o options, other *libllama.Client, s *infer.Session, name string, threads int, ours, theirs float64) error {
	hogs, err := startHogs(o.busy)
	defer hogs.stop()
	if err != nil {
		return err
	}
	var a, b []timing
	for range o.rounds {
		time.Sleep(settle)
		t, err := our(s, "decode", o.decode, o.depth)
		if err != nil {
			return err
		}
		a = append(a, t)
		if other == nil {
			continue
		}
		time.Sleep(settle)
		if t, err = their(other, "decode", o.decode, o.depth); err != nil {
			return err
		}
		b = append(b, t)
	}
	cores := runtime.NumCPU()
	share := min(1, float64(cores)/float64(threads+o.busy))
	fmt.Printf("%-10s %7d %-8s %10.1f", name, threads, fmt.Sprint(o.busy, " busy"), median(a).wall)
	if other != nil {
		fmt.Printf(" %10.1f", median(b).wall)
	}
	fmt.Printf("   of the rate alone: %.0f%%", 100*median(a).wall/ours)
	if other != nil {
		fmt.Printf(", %.0f%%", 100*median(b).wall/theirs)
	}
	fmt.Printf("; its share is %.0f%%", 100*share)
	used := median(a)
	fmt.Printf("; %.1f a CPU second on %.2f cores\n", used.cpu, used.wall/used.cpu)
	return nil
}

// hogs are processes that compute.
type hogs struct {
	inputs []io.Closer
	procs  []*exec.Cmd
}

func startHogs(n int) (*hogs, error) {
	h := &hogs{}
	self, err := os.Executable()
	if err != nil {
		return h, err
	}
	for range n {
		c := exec.Command(self, "-hog")
		in, err := c.StdinPipe()
		if err != nil {
			return h, err
		}
		if err := c.Start(); err != nil {
			return h, err
		}
		h.inputs, h.procs = append(h.inputs, in), append(h.procs, c)
	}
	return h, nil
}

func (h *hogs) stop() {
	for i, p := range h.procs {
		h.inputs[i].Close()
		p.Wait()
	}
}

// spin computes until standard input ends.
func spin() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for x := 1; ; x = x*48271 + 1 {
		if x == 0 {
			fmt.Print("")
		}
	}
}

// timing is tokens per second of elapsed time and of processor time.
type timing struct{ wall, cpu float64 }

func rate(count int, wall, cpu time.Duration) timing {
	return timing{float64(count) / wall.Seconds(), float64(count) / cpu.Seconds()}
}

func median(t []timing) timing {
	at := func(f func(timing) float64) float64 {
		v := make([]float64, len(t))
		for i := range t {
			v[i] = f(t[i])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return timing{at(func(t timing) float64 { return t.wall }), at(func(t timing) float64 { return t.cpu })}
}

// best returns the maxima.
func best(t []timing) timing {
	m := t[0]
	for _, v := range t {
		m.wall, m.cpu = max(m.wall, v.wall), max(m.cpu, v.cpu)
	}
	return m
}

// token returns the i-th token; the driver uses the same.
func token(i, vocab int) int32 { return int32((i*7919 + 13) % vocab) }

func our(s *infer.Session, what string, count, depth int) (timing, error) {
	ctx := context.Background()
	s.Truncate(0)
	vocab := s.Model().Config().Vocab
	tokens := make([]int32, max(count, depth))
	for i := range tokens {
		tokens[i] = token(i, vocab)
	}
	if what == "decode" && depth > 0 {
		if err := s.Feed(ctx, tokens[:depth]); err != nil {
			return timing{}, err
		}
	}
	wall, cpu := time.Now(), libllama.CPUTime()
	if what == "prefill" {
		if err := s.Feed(ctx, tokens[:count]); err != nil {
			return timing{}, err
		}
	} else {
		for i := range count {
			if err := s.Feed(ctx, tokens[i:i+1]); err != nil {
				return timing{}, err
			}
		}
	}
	return rate(count, time.Since(wall), libllama.CPUTime()-cpu), nil
}

func their(c *libllama.Client, what string, count, depth int) (timing, error) {
	if _, err := c.Do(libllama.Request{Op: "clear"}); err != nil {
		return timing{}, err
	}
	if what == "decode" && depth > 0 {
		if _, err := c.Do(libllama.Request{Op: "prefill", Count: depth}); err != nil {
			return timing{}, err
		}
	}
	r, err := c.Do(libllama.Request{Op: what, Count: count})
	return rate(count, r.Wall, r.CPU), err
}
