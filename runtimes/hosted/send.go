package hosted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/runtimes"
)

// The limits of a server's answers.
const (
	maxEvent   = 4 << 20  // bytes of an event
	maxRefusal = 64 << 10 // bytes of a refusal that are read
	maxReason  = 1 << 10  // and shown
	retries    = 2
	leastWait  = 500 * time.Millisecond // doubled with each retry
	mostWait   = time.Minute            // that a Retry-After may ask for
)

// ask sends the turns and reads one turn of the answer.
func (m *Model) ask(ctx context.Context, x *exchange) error {
	path, body, err := m.form.wire.request(m, x)
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := m.send(ctx, path, data)
	if err != nil {
		return m.hidden(err)
	}
	defer resp.Body.Close()
	x.stop, x.usage = "", usage{}
	defer x.count()
	if err := m.read(x, resp.Body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return m.hidden(err)
	}
	return nil
}

// send sends a request, again after a refusal that is worth a retry, and returns a response
// with status 200.
func (m *Model) send(ctx context.Context, path string, body []byte) (*http.Response, error) {
	for n := 0; ; n++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		m.form.wire.authorize(req.Header, m.key)
		resp, err := m.http.Do(req)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		after, asked, again := time.Duration(0), false, err != nil && ctx.Err() == nil
		if err == nil {
			after, asked = httpx.RetryAfter(resp.Header, time.Now())
			again = retried(resp.StatusCode)
			err = m.refusal(resp)
		}
		if !again || n == retries || after > mostWait {
			return nil, err
		}
		if !asked {
			after = leastWait << n
		}
		if m.opt.Say != nil {
			m.opt.Say(fmt.Sprintf("%v; trying again in %v", m.hidden(err), after.Round(time.Millisecond)))
		}
		if err := m.wait(ctx, after); err != nil {
			return nil, err
		}
	}
}

// retried reports whether a status is worth a retry. Nothing was answered.
func retried(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529:
		return true
	}
	return false
}

func (m *Model) wait(ctx context.Context, d time.Duration) error {
	if m.opt.Wait != nil {
		m.opt.Wait(d)
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Refusal is a request that the server refused.
type Refusal struct {
	Status  int    // 0: in the stream
	Code    string // the provider's word; "": none
	Message string
	hint    string
}

// Error describes the refusal.
func (e *Refusal) Error() string {
	text := "the server refused the request"
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		text = "the server refused the key"
	case e.Status == http.StatusNotFound:
		text = "the server has no such model or path"
	case e.Status == http.StatusTooManyRequests:
		text = "the rate limit or the quota of the server is used up"
	case e.Status >= 500:
		text = "the server failed"
	case e.Status >= 300 && e.Status < 400:
		text = "the server redirects elsewhere, which is not followed"
	case e.Status == 0:
		text = "the answer ended with an error"
	}
	if e.Status != 0 {
		text += fmt.Sprintf(" (%d)", e.Status)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Hint returns what to do, or "".
func (e *Refusal) Hint() string { return e.hint }

// Unwrap returns the error of a full context, if the refusal is that.
func (e *Refusal) Unwrap() error {
	words := strings.ToLower(e.Code + " " + e.Message)
	for _, w := range []string{"context_length_exceeded", "prompt is too long", "exceeds the maximum number of tokens", "exceed_context_size"} {
		if strings.Contains(words, w) {
			return runtimes.ErrFull
		}
	}
	return nil
}

// refusal reads a response that is not 200 and closes it.
func (m *Model) refusal(resp *http.Response) error {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	e := &Refusal{Status: resp.StatusCode}
	if err == nil {
		e.Code, e.Message = reasonOf(data)
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.hint = "set " + m.form.variables[0] + " in the environment"
	case http.StatusNotFound:
		e.hint = "check --model and --url"
	}
	return e
}

// reasonOf returns the code and the message of an error in any of the forms.
func reasonOf(data []byte) (code, message string) {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && len(list) > 0 { // Gemini without a stream of events
		data = list[0]
	}
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Status  string `json:"status"`
	}
	switch {
	case json.Unmarshal(data, &outer) != nil || outer.Error == nil:
		return "", shown(string(data))
	case json.Unmarshal(outer.Error, &inner) != nil:
		var text string
		_ = json.Unmarshal(outer.Error, &text) // other values show nothing
		return "", shown(text)
	}
	code, _ = inner.Code.(string)
	for _, word := range []string{inner.Status, inner.Type} {
		if code == "" {
			code = word
		}
	}
	return code, shown(inner.Message)
}

// shown returns a server's text for a terminal.
func shown(text string) string {
	text = diag.Printable(strings.Join(strings.Fields(text), " "))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// hidden returns an error without the key, which a server may repeat.
func (m *Model) hidden(err error) error {
	var r *Refusal
	switch {
	case m.key == "" || !strings.Contains(err.Error(), m.key):
		return err
	case errors.As(err, &r):
		one := *r
		one.Message = strings.ReplaceAll(one.Message, m.key, "[key]")
		return &one
	}
	return errors.New(strings.ReplaceAll(err.Error(), m.key, "[key]"))
}

// read reads the events of a stream until the answer is complete.
func (m *Model) read(x *exchange, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var data []byte
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(rest) > maxEvent {
				return fmt.Errorf("an event of the server exceeds %d bytes", maxEvent)
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		}
		if (len(line) == 0 || err != nil) && len(data) > 0 {
			done, bad := m.one(x, data)
			if bad != nil || done {
				return bad
			}
			data = data[:0]
		}
		if err != nil {
			if x.stop != "" { // a stream of Gemini has no last word
				return nil
			}
			return errors.New("the stream of the server ended before the answer was complete")
		}
	}
}

// one reads an event.
func (m *Model) one(x *exchange, data []byte) (done bool, err error) {
	if bytes.Equal(data, []byte("[DONE]")) {
		return true, nil
	}
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &outer); err != nil {
		return false, fmt.Errorf("malformed event of the server: %w", err)
	}
	if len(outer.Error) > 0 && !bytes.Equal(outer.Error, []byte("null")) {
		code, message := reasonOf(data)
		return false, &Refusal{Code: code, Message: message}
	}
	return m.form.wire.event(x, data)
}

// readLine reads a line of a stream without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxEvent {
			return nil, fmt.Errorf("an event of the server exceeds %d bytes", maxEvent)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}
