package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// crowd measures concurrent answers.
type crowd struct {
	asks, tokens, prompt, threads, stall int
	shared, compare                      bool
	text, words, model                   string
}

// measured holds the times of an answer.
type measured struct {
	text          string
	first         time.Duration
	gaps          []time.Duration
	tokens, saved int
}

func (c *crowd) run(ctx context.Context, ref, target, clients string) error {
	w, err := workspace.Open(workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	text, err := os.ReadFile(c.text)
	if err != nil {
		return err
	}
	c.words = string(text)
	if c.stall > 0 {
		clients = "1"
	}
	fmt.Println("| clients | tok/s | first token p50 / p95 ms | gap p50 / p95 / max ms | cached | MiB | s | CPU s |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	texts := map[string]string{}
	for _, word := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		b, err := w.Runnable(ctx, ref, workspace.RunOptions{Target: target})
		if err != nil {
			return err
		}
		r, err := runner.Open(ctx, b, runner.Options{Engines: []runtimes.Engine{engines.Core{}}, Raw: true, Limits: runtimes.Limits{Threads: c.threads}})
		if err != nil {
			return err
		}
		measure := c.measure
		if c.stall > 0 {
			measure = c.stalled
		}
		if err := errors.Join(measure(ctx, r, n, texts), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// measure asks with n clients and prints a row.
func (c *crowd) measure(ctx context.Context, r *runner.Runner, n int, texts map[string]string) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	all := make([]measured, n*c.asks)
	errs := make([]error, n)
	start, before := time.Now(), processor(os.Getpid())
	var wg sync.WaitGroup
	for client := range n {
		wg.Go(func() {
			for i := range c.asks {
				if errs[client] == nil {
					errs[client] = c.ask(ctx, r, client*c.asks+i, &all[client*c.asks+i])
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var first, gaps []time.Duration
	tokens, saved := 0, 0
	for i, h := range all {
		first, gaps = append(first, h.first), append(gaps, h.gaps...)
		tokens, saved = tokens+h.tokens, saved+h.saved
		key := c.question(i)
		if was, ok := texts[key]; ok && was != h.text && c.compare {
			return fmt.Errorf("answer %d differs with %d clients:\n%s\n%s", i, n, was, h.text)
		}
		texts[key] = h.text
	}
	fmt.Printf("| %d | %.0f | %.0f / %.0f | %.1f / %.1f / %.0f | %d | %d | %.1f | %.1f |\n", n, float64(tokens)/took.Seconds(),
		ms(quantile(first, 0.5)), ms(quantile(first, 0.95)), ms(quantile(gaps, 0.5)), ms(quantile(gaps, 0.95)), ms(quantile(gaps, 1)), saved/len(all), resident(os.Getpid()), took.Seconds(), processor(os.Getpid())-before)
	return nil
}

// stalled measures the gaps of an answer while a long prompt is read, and the time to the
// first token of a short prompt that arrives meanwhile.
func (c *crowd) stalled(ctx context.Context, r *runner.Runner, _ int, _ map[string]string) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	var idle, h, short measured
	if err := c.ask(ctx, r, 1, &idle); err != nil {
		return err
	}
	long := *c
	long.prompt, long.tokens = c.stall, 1
	short0 := *c
	short0.prompt, short0.tokens = 10, 1
	var read measured
	errs := make([]error, 3)
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = c.ask(ctx, r, 2, &h) })
	time.Sleep(idle.first + 100*time.Millisecond)
	wg.Go(func() { errs[1] = long.ask(ctx, r, 3, &read) })
	time.Sleep(300 * time.Millisecond)
	wg.Go(func() { errs[2] = short0.ask(ctx, r, 4, &short) })
	wg.Wait()
	fmt.Printf("gap alone p50 %.1f max %.1f ms; with %d words p50 %.1f p95 %.1f max %.1f ms; these took %.0f ms, a short prompt %.0f ms\n",
		ms(quantile(idle.gaps, 0.5)), ms(quantile(idle.gaps, 1)), c.stall, ms(quantile(h.gaps, 0.5)), ms(quantile(h.gaps, 0.95)), ms(quantile(h.gaps, 1)), ms(read.first), ms(short.first))
	return errors.Join(errs...)
}

func (c *crowd) ask(ctx context.Context, r *runner.Runner, i int, h *measured) error {
	start := time.Now()
	last := start
	a, err := r.Answer(ctx, runner.Request{
		Inputs:      []talk.Part{{Text: c.question(i)}},
		Preferences: runner.Preferences{MaxTokens: c.tokens, Options: sample.Options{Temperature: 0.8, Seed: uint64(i)}},
	}, func(string) error {
		now := time.Now()
		if last == start {
			h.first = now.Sub(start)
		} else {
			h.gaps = append(h.gaps, now.Sub(last))
		}
		last = now
		return nil
	})
	if err != nil {
		return err
	}
	h.text, h.tokens, h.saved = a.Text, a.Timings.Generated, a.Timings.Reused
	return nil
}

// question returns the i-th prompt: words of the text from different places on.
func (c *crowd) question(i int) string {
	words := strings.Fields(c.words)
	draw := func(seed, n int) string {
		at := rand.New(rand.NewPCG(uint64(seed), 7)).IntN(max(1, len(words)-n))
		return strings.Join(words[at:min(at+n, len(words))], " ")
	}
	system := i + 1
	if c.shared {
		system = 0
	}
	return draw(system, c.prompt) + ".\n\nStory number " + strconv.Itoa(i) + ": " + draw(i+1, 12)
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1)+0.5)]
}

// resident returns the largest resident memory of a process in MiB.
func resident(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n >> 10
		}
	}
	return 0
}

// processor returns the seconds of processors that a process has used.
func processor(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}
