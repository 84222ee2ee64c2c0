package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/tools/libllama"
)

// promptLen is the number of prompt tokens.
const promptLen = 16

// first does what mm does up to its first token: load the tokenizer, if any, and the
// weights, and read a prompt. Then it writes a byte.
func first(path string, threads int) error {
	m, err := infer.Load(path, infer.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := tokenizer.FromGGUF(m.File()); err != nil && !errors.Is(err, tokenizer.ErrNoVocabulary) {
		return err
	}
	s, err := m.NewSession(infer.SessionOptions{Context: 2048})
	if err != nil {
		return err
	}
	tokens := make([]int32, promptLen)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % m.Config().Vocab)
	}
	if err := s.Feed(context.Background(), tokens); err != nil {
		return err
	}
	_, err = os.Stdout.Write([]byte{'.'})
	return err
}

// begun holds the times up to the first token.
type begun struct{ wall, cpu time.Duration }

// startMM runs first in a child process.
func startMM(path string, threads int) (begun, error) {
	self, err := os.Executable()
	if err != nil {
		return begun{}, err
	}
	return process(exec.Command(self, "-first", path, "-threads", strconv.Itoa(threads)))
}

// prompt is the prompt of mm run.
const prompt = "Once upon a time, there was a little girl named Lily."

// startRun runs mm run with an MM_HOME.
func startRun(mm, home, path string, threads int) (begun, error) {
	cmd := exec.Command(mm, "run", path, "--prompt", prompt, "--max-tokens", "1", "--threads", strconv.Itoa(threads), "--quiet")
	cmd.Env = append(os.Environ(), "MM_HOME="+home)
	return process(cmd)
}

// promptOf returns the number of tokens of the prompt.
func promptOf(mm, home, path string) (int, error) {
	cmd := exec.Command(mm, "run", path, "--prompt", prompt, "--max-tokens", "1", "--json")
	cmd.Env = append(os.Environ(), "MM_HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	var result struct {
		Timings struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"timings"`
	}
	if err := json.Unmarshal(out, &result); err != nil || result.Timings.Prompt == 0 {
		return 0, fmt.Errorf("mm run --json: missing prompt_tokens: %s", out)
	}
	return result.Timings.Prompt, nil
}

// process runs a command to its end and measures the time of its first byte.
func process(cmd *exec.Cmd) (begun, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return begun{}, err
	}
	from := time.Now()
	if err := cmd.Start(); err != nil {
		return begun{}, err
	}
	_, readErr := io.ReadFull(out, make([]byte, 1))
	wall := time.Since(from)
	if _, err := io.Copy(io.Discard, out); err != nil {
		return begun{}, err
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return begun{}, fmt.Errorf("%w: %s", err, &stderr)
	}
	return begun{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// startLibllama does the same with the driver.
func startLibllama(driver, libs, path string, threads, prompt int) (begun, error) {
	from := time.Now()
	c, err := libllama.Run(driver, libs)
	if err != nil {
		return begun{}, err
	}
	_, err = c.Do(libllama.Request{Op: "load", Path: path, Threads: threads, Context: 2048, KV: 1})
	if err == nil {
		_, err = c.Do(libllama.Request{Op: "prefill", Count: prompt})
	}
	wall := time.Since(from)
	if err := errors.Join(err, c.Close()); err != nil {
		return begun{}, err
	}
	return begun{wall, c.CPU()}, nil
}

// start prints medians and minima of processes that run alternately.
func (o options) start(out io.Writer) error {
	tmp, err := os.MkdirTemp("", "start")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	driver := filepath.Join(tmp, "driver")
	if err := libllama.Build(".", driver); err != nil {
		return err
	}
	mm := filepath.Join(tmp, "mm")
	if out, err := exec.Command("go", "build", "-o", mm, "./cmd/mm").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	libs, variant, err := librariesFor(cpu.Use(), libllama.Libraries(o.native))
	if err != nil {
		return err
	}
	defer os.RemoveAll(libs)
	fmt.Fprintf(out, "level %s, llama.cpp: %s, load %s\n", cpu.Use(), variant, load())
	fmt.Fprintf(out, "%-34s %-18s %7s %5s  %21s  %21s  %s\n", "model", "", "threads", "cache", "mm ms (least, cpu)", "libllama", "ratio of medians (cpu)")
	for _, name := range o.models {
		path, err := modelFile(o.dir, o.native, name)
		if err != nil {
			return err
		}
		for _, threads := range o.threads {
			ways := []rivals{{"engine", func() (begun, error) { return startMM(path, threads) }, func() (begun, error) { return startLibllama(driver, libs, path, threads, promptLen) }}}
			home := filepath.Join(tmp, "home")
			if prompt, err := promptOf(mm, home, path); err == nil { // has a tokenizer
				ways = append(ways, rivals{fmt.Sprintf("mm run, %d tokens", prompt), func() (begun, error) { return startRun(mm, home, path, threads) },
					func() (begun, error) { return startLibllama(driver, libs, path, threads, prompt) }})
			}
			for _, way := range ways {
				for _, cache := range []string{"warm", "cold"} {
					if err := o.startOne(out, way, path, threads, cache); err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
			}
		}
	}
	return nil
}

// rivals are two ways to a first token.
type rivals struct {
	name         string
	ours, theirs func() (begun, error)
}

func (o options) startOne(out io.Writer, way rivals, path string, threads int, cache string) error {
	var wall, used [2][]time.Duration
	for round := range o.rounds + 1 {
		for i, run := range []func() (begun, error){way.ours, way.theirs} {
			if cache == "cold" {
				if err := dropCache(path); err != nil {
					return err
				}
			}
			b, err := run()
			if err != nil {
				return err
			}
			if round == 0 {
				continue // warms up
			}
			wall[i], used[i] = append(wall[i], b.wall), append(used[i], b.cpu)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var texts [2]string
	for i := range wall {
		slices.Sort(wall[i])
		slices.Sort(used[i])
		texts[i] = fmt.Sprintf("%.0f (%.0f, %.0f)", ms(mid(wall[i])), ms(wall[i][0]), ms(mid(used[i])))
	}
	fmt.Fprintf(out, "%-34s %-18s %7d %5s  %21s  %21s  %.2f (%.2f)\n", filepath.Base(path), way.name, threads, cache, texts[0], texts[1],
		ms(mid(wall[0]))/ms(mid(wall[1])), ms(mid(used[0]))/ms(mid(used[1])))
	return nil
}

// mid returns the median of sorted times.
func mid(d []time.Duration) time.Duration { return d[len(d)/2] }
