// The first argument overhead compares mm run --backend llamacpp with llama.cpp's library driven
// directly, without a pipe, tokenizer or sampler: the same file, number of threads and
// tokens in the context, alternately.
//
//	bench overhead -home HOME -native DIR [-mm FILE] [-threads 1,2] [-rounds 5]
//
// HOME is an MM_HOME with llamacpp installed by mm runtime install, DIR the folder of
// scripts/fetch-native.sh. By default mm is in the folder of this program. SmolLM2 is
// measured as fetched, and as Q8_0 and F32 files that the library makes from it. On a busy
// machine the processor time per token is more reliable than tokens per second: it is that
// of mm and mm-native, minus a run of one token.

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/tools/libllama"
)

// overheadMain measures the cost of the child process.
func overheadMain(flag *flag.FlagSet, args []string) {
	var o overheadOptions
	flag.StringVar(&o.home, "home", "", "home folder with llamacpp installed")
	flag.StringVar(&o.native, "native", os.Getenv("MM_NATIVE_DIR"), "folder that scripts/fetch-native.sh filled")
	flag.StringVar(&o.mm, "mm", "", "program mm; by default in the folder of this program")
	threads := flag.String("threads", "1,2", "numbers of threads")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds")
	flag.IntVar(&o.tokens, "tokens", 96, "tokens that are written")
	flag.Parse(args)
	for _, s := range strings.Split(*threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			fail(fmt.Errorf("bad number of threads %q", s))
		}
		o.threads = append(o.threads, n)
	}
	if err := runOverhead(o); err != nil {
		fail(err)
	}
}

type overheadOptions struct {
	home, native, mm string
	threads          []int
	rounds, tokens   int
}

const overheadPrompt = "Once upon a time there was a small brown bear who lived at the edge of a large forest and liked to listen to the rain."

func runOverhead(o overheadOptions) (err error) {
	if o.mm == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.mm = filepath.Join(filepath.Dir(self), "mm")
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	alone, err := libllama.Start(root, libllama.Libraries(o.native))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.Close()) }()
	dir, err := os.MkdirTemp("", "overhead")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	small := libllama.SmolLM2(o.native)
	const allF32, mostlyQ8 = 0, 7 // llama_ftype
	files := []struct {
		name, path string
		kind       uint32
	}{{"Q4_1", small, 0}, {"Q8_0", filepath.Join(dir, "q8.gguf"), mostlyQ8}, {"F32", filepath.Join(dir, "f32.gguf"), allF32}}
	fmt.Printf("SmolLM2-135M, %d tokens written: tokens a second, best (median) of %d\n", o.tokens, o.rounds)
	fmt.Printf("%-5s %1s  %16s %16s  %-14s  %s\n", "type", "t", "mm run", "library alone", "mm / alone", "CPU ms a token: mm, alone, mm / alone (least)")
	for _, f := range files {
		if f.path != small {
			if _, err := alone.Do(libllama.Request{Op: "convert", Path: small, Out: f.path, Type: f.kind}); err != nil {
				return err
			}
		}
		for _, threads := range o.threads {
			if err := measureOverhead(o, alone, f.name, f.path, threads); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs the two alternately.
func measureOverhead(o overheadOptions, alone *libllama.Client, name, path string, threads int) error {
	const halfPrecision = 1 // GGML type of keys and values, as mm takes it
	var ours, theirs, cpu, cpuAlone []float64
	for range o.rounds {
		one, err := ask(o, path, threads, 1)
		if err != nil {
			return err
		}
		got, err := ask(o, path, threads, o.tokens)
		if err != nil {
			return err
		}
		ours, cpu = append(ours, got.perSecond), append(cpu, 1000*(got.cpu-one.cpu)/float64(o.tokens-1))
		if _, err := alone.Do(libllama.Request{Op: "load", Path: path, Threads: threads, Context: 1024, KV: halfPrecision}); err != nil {
			return err
		}
		if _, err := alone.Do(libllama.Request{Op: "prefill", Count: got.read}); err != nil {
			return err
		}
		reply, err := alone.Do(libllama.Request{Op: "decode", Count: o.tokens})
		if err != nil {
			return err
		}
		theirs, cpuAlone = append(theirs, float64(o.tokens)/reply.Wall.Seconds()), append(cpuAlone, 1000*reply.CPU.Seconds()/float64(o.tokens))
		if _, err := alone.Do(libllama.Request{Op: "free"}); err != nil {
			return err
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	n := len(ours)
	a, b := slices.Min(cpu), slices.Min(cpuAlone)
	fmt.Printf("%-5s %1d  %16s %16s  %.3f (%.3f)   %.2f, %.2f, %.3f\n", name, threads, fmt.Sprintf("%.1f (%.1f)", ours[n-1], ours[n/2]), fmt.Sprintf("%.1f (%.1f)", theirs[n-1], theirs[n/2]),
		ours[n-1]/theirs[n-1], ours[n/2]/theirs[n/2], a, b, a/b)
	return nil
}

// runStats are the figures of a run of mm.
type runStats struct {
	perSecond float64
	read      int     // tokens
	cpu       float64 // seconds, of mm and mm-native
}

// ask runs mm.
func ask(o overheadOptions, path string, threads, tokens int) (t runStats, err error) {
	cmd := exec.Command(o.mm, "run", path, "--raw", "--backend", "llamacpp", "--threads", fmt.Sprint(threads), "--max-tokens", fmt.Sprint(tokens), "--json", "--prompt", overheadPrompt)
	cmd.Env = append(os.Environ(), "MM_HOME="+o.home)
	out, err := cmd.Output()
	if err != nil {
		return t, fmt.Errorf("mm run: %w: %s", err, out)
	}
	var answer struct {
		Timings struct {
			Prompt    int     `json:"prompt_tokens"`
			Generated int     `json:"generated"`
			PerSecond float64 `json:"tokens_per_second"`
		} `json:"timings"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return t, fmt.Errorf("mm run: %w", err)
	}
	if answer.Timings.Generated != tokens {
		return t, fmt.Errorf("mm run wrote %d tokens of %d", answer.Timings.Generated, tokens)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return runStats{answer.Timings.PerSecond, answer.Timings.Prompt, used.Seconds()}, nil
}
