package main

import (
	"context"
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
	"mm-abi.org/mm/internal/libllama"
)

// promptLen is the tokens that are read before the first is known.
const promptLen = 16

// first is what a process of mm does up to its first token: the tokenizer, if
// the file has one, the weights, a prompt. It writes a byte then.
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

// begun is what it took to get to the first token.
type begun struct{ wall, cpu time.Duration }

// startMM runs first in a process of its own.
func startMM(path string, threads int) (begun, error) {
	self, err := os.Executable()
	if err != nil {
		return begun{}, err
	}
	cmd := exec.Command(self, "-first", path, "-threads", strconv.Itoa(threads))
	cmd.Stderr = os.Stderr
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
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return begun{}, err
	}
	return begun{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// startLibllama does the same with a driver.
func startLibllama(driver, libs, path string, threads int) (begun, error) {
	from := time.Now()
	c, err := libllama.Run(driver, libs)
	if err != nil {
		return begun{}, err
	}
	_, err = c.Do(libllama.Request{Op: "load", Path: path, Threads: threads, Context: 2048, KV: 1})
	if err == nil {
		_, err = c.Do(libllama.Request{Op: "prefill", Count: promptLen})
	}
	wall := time.Since(from)
	if err := errors.Join(err, c.Close()); err != nil {
		return begun{}, err
	}
	return begun{wall, c.CPU()}, nil
}

// start prints medians, and least times, of processes that take turns.
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
	libs, variant, err := librariesFor(cpu.Use(), filepath.Join(o.native, "lib", "bins", "linux-x64"))
	if err != nil {
		return err
	}
	defer os.RemoveAll(libs)
	fmt.Fprintf(out, "level %s, llama.cpp: %s, load %s\n", cpu.Use(), variant, load())
	fmt.Fprintf(out, "%-34s %7s %5s  %21s  %21s  %s\n", "model", "threads", "cache", "mm ms (least, cpu)", "libllama", "ratio of medians (cpu)")
	for _, name := range o.models {
		path, err := modelFile(o.dir, name)
		if err != nil {
			return err
		}
		for _, threads := range o.threads {
			for _, cache := range []string{"warm", "cold"} {
				if err := o.startOne(out, driver, libs, path, threads, cache); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

func (o options) startOne(out io.Writer, driver, libs, path string, threads int, cache string) error {
	var wall, used [2][]time.Duration
	for round := range o.rounds + 1 {
		for i, run := range []func() (begun, error){
			func() (begun, error) { return startMM(path, threads) },
			func() (begun, error) { return startLibllama(driver, libs, path, threads) },
		} {
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
				continue // brings the file, or the programs, into memory
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
	fmt.Fprintf(out, "%-34s %7d %5s  %21s  %21s  %.2f (%.2f)\n", filepath.Base(path), threads, cache, texts[0], texts[1],
		ms(mid(wall[0]))/ms(mid(wall[1])), ms(mid(used[0]))/ms(mid(used[1])))
	return nil
}

// mid is the median of sorted times.
func mid(d []time.Duration) time.Duration { return d[len(d)/2] }
