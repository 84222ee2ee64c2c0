package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// load asks a server with the OpenAI API what [crowd.run] asks the runner, greedily
// and by chat, and prints a row for each number of clients.
func (c *crowd) load(ctx context.Context, base, label string, pid int, clients string) error {
	text, err := os.ReadFile(c.text)
	if err != nil {
		return err
	}
	c.words = string(text)
	if c.model, err = firstModel(ctx, base); err != nil {
		return err
	}
	for _, word := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		var warm measured // the server has loaded the model
		if err := (&crowd{words: c.words, model: c.model, prompt: 5, tokens: 2}).request(ctx, base, 1<<20, &warm); err != nil {
			return err
		}
		all, errs := make([]measured, n*c.asks), make([]error, n*c.asks)
		start, before := time.Now(), processor(pid)
		var wg sync.WaitGroup
		for client := range n {
			wg.Go(func() {
				for i := client; i < len(all); i += n {
					errs[i] = c.request(ctx, base, i, &all[i])
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		var first, gaps []time.Duration
		tokens, saved, failed := 0, 0, 0
		for i, h := range all {
			if errs[i] != nil {
				failed++
				continue
			}
			first, gaps = append(first, h.first), append(gaps, h.gaps...)
			tokens, saved = tokens+h.tokens, saved+h.saved
		}
		fmt.Printf("| %s | %d | %d of %d | %.0f | %.0f / %.0f | %.1f / %.1f / %.0f | %d | %d | %.1f |\n", label, n, len(all)-failed, len(all), float64(tokens)/took.Seconds(),
			ms(quantile(first, 0.5)), ms(quantile(first, 0.95)), ms(quantile(gaps, 0.5)), ms(quantile(gaps, 0.95)), ms(quantile(gaps, 1)), saved/max(1, len(all)-failed), resident(pid), processor(pid)-before)
		if failed > 0 {
			fmt.Fprintln(os.Stderr, "latency:", errors.Join(errs...))
		}
	}
	return nil
}

// firstModel returns the name of the first model of a server.
func firstModel(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/models", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil || len(list.Data) == 0 {
		return "", errors.Join(err, fmt.Errorf("no models at %s", base))
	}
	return list.Data[0].ID, nil
}

// request asks the i-th question and reads the stream of its answer.
func (c *crowd) request(ctx context.Context, base string, i int, h *measured) error {
	system, user, _ := strings.Cut(c.question(i), "\n\n")
	body, err := json.Marshal(map[string]any{
		"model": c.model, "stream": true, "stream_options": map[string]any{"include_usage": true}, "temperature": 0, "max_tokens": c.tokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "system", "content": system}, {"role": "user", "content": user}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return h.stream(resp.Body, start)
}

// stream reads the events of an answer.
func (h *measured) stream(r io.Reader, start time.Time) error {
	last, ended := start, false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			ended = true
			continue
		}
		var e struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   *struct {
				Completion int `json:"completion_tokens"`
				Details    struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error any
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error != nil {
			return errors.Join(err, fmt.Errorf("event %.200s", data))
		}
		if e.Usage != nil {
			h.tokens, h.saved = e.Usage.Completion, e.Usage.Details.Cached
		}
		if len(e.Choices) == 0 || e.Choices[0].Delta.Content == "" {
			continue
		}
		now := time.Now()
		if last == start {
			h.first = now.Sub(start)
		} else {
			h.gaps = append(h.gaps, now.Sub(last))
		}
		last = now
		h.text += e.Choices[0].Delta.Content
	}
	if err := lines.Err(); err != nil || !ended {
		return errors.Join(err, errors.New("the stream ended early"))
	}
	return nil
}
