package suite

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Shard is a part of the questions of every task: those whose number modulo Count is
// Index.
type Shard struct{ Index, Count int }

// The limits of answers in files.
const (
	MaxShards  = 1024
	maxAnswers = 1 << 27 // bytes of a file
	maxAnswer  = 1 << 24 // bytes of a line
)

// ParseShard parses I/N, with I from 1.
func ParseShard(s string) (Shard, error) {
	a, b, ok := strings.Cut(s, "/")
	i, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err != nil || err2 != nil || i < 1 || i > n || n > MaxShards {
		return Shard{}, fmt.Errorf("shard %q: want I/N with I from 1 to N, at most %d", s, MaxShards)
	}
	return Shard{i - 1, n}, nil
}

// answer is a line of a file of answers: that of a model to a question, before it is
// judged.
type answer struct {
	Task     string   `json:"task"`
	Key      string   `json:"key"` // of the task on the model; see Cache
	Question int      `json:"question"`
	Scores   []Scored `json:"scores,omitempty"`
	Text     []byte   `json:"text,omitempty"` // any bytes
	Calls    []Called `json:"calls,omitempty"`
}

// Part asks the questions of a shard and writes a line for each answer.
func (c Cache) Part(ctx context.Context, t *Task, m Model, s Shard, opt RunOptions, w io.Writer) error {
	_, data, err := t.recorded()
	if err != nil {
		return err
	}
	all, err := t.prompts(t.docs)
	if err != nil {
		return t.failed(diag.SuiteTemplate, err)
	}
	var mine []question
	var numbers []int
	for i := s.Index; i < len(all); i += s.Count {
		mine, numbers = append(mine, all[i]), append(numbers, i)
	}
	answers := make([]answered, len(mine))
	if err := t.answerAll(ctx, m, mine, answers, opt); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	key := c.key(t, data)
	for i, a := range answers {
		if err := e.Encode(answer{t.Name, key, numbers[i], a.scores, []byte(a.text), a.calls}); err != nil {
			return fmt.Errorf("task %s, document %d: %w", t.Name, a.doc.id, err)
		}
	}
	return nil
}

// Answers are those of files, by the key of a task and the number of a question.
type Answers map[string]map[int]answer

// ReadAnswers reads files of answers. Two different answers to a question are an error.
func ReadAnswers(files []string) (Answers, error) {
	out := Answers{}
	for _, file := range files {
		data, err := fsx.ReadFile(file, maxAnswers)
		if err == nil {
			err = out.add(data)
		}
		if err != nil {
			return nil, fmt.Errorf("answers %s: %w", file, err)
		}
	}
	return out, nil
}

// add parses the untrusted content of a file of answers.
func (all Answers) add(data []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxAnswer)
	n := 0
	for lines.Scan() {
		n++
		var a answer
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if d.More() || a.Key == "" || a.Question < 0 {
			return fmt.Errorf("line %d: want one answer to a question", n)
		}
		if all[a.Key] == nil {
			all[a.Key] = map[int]answer{}
		}
		if before, exists := all[a.Key][a.Question]; exists && !equalAnswers(before, a) {
			return fmt.Errorf("line %d: question %d of %s has another answer before", n, a.Question, a.Task)
		}
		all[a.Key][a.Question] = a
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("line %d: more than %d bytes", n+1, maxAnswer)
		}
		return err
	}
	return nil
}

func equalAnswers(a, b answer) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// Join judges the answers of files to all questions of a task, as [Cache.Ask] judges those of
// the model, and removes them from the answers.
func (c Cache) Join(t *Task, from Answers) (*Outcome, error) {
	media, data, err := t.recorded()
	if err != nil {
		return nil, err
	}
	all, err := t.prompts(t.docs)
	if err != nil {
		return nil, t.failed(diag.SuiteTemplate, err)
	}
	key := c.key(t, data)
	got, answers := from[key], make([]answered, len(all))
	for i := range all {
		a, exists := got[i]
		if !exists {
			return nil, fmt.Errorf("task %s: no answer to question %d of %d from this model, these documents and these options", t.Name, i, len(all))
		}
		if err := a.fits(t, &all[i]); err != nil {
			return nil, fmt.Errorf("task %s, question %d: %w", t.Name, i, err)
		}
		answers[i] = answered{&all[i], a.Scores, string(a.Text), a.Calls}
	}
	if len(got) != len(all) {
		return nil, fmt.Errorf("task %s: got answers to %d questions, want %d", t.Name, len(got), len(all))
	}
	delete(from, key)
	o, err := t.outcome(answers)
	if err == nil {
		o.record(media, data)
	}
	return o, err
}

// fits reports an answer that is not one to the question.
func (a answer) fits(t *Task, q *question) error {
	want := len(q.rest)
	if t.spec.Output == Generate {
		want = 0
	}
	if len(a.Scores) != want {
		return fmt.Errorf("got %d scores, want %d", len(a.Scores), want)
	}
	return nil
}

// Rest reports answers that no task took.
func (all Answers) Rest() error {
	for _, of := range all {
		for _, a := range of {
			return fmt.Errorf("answers to task %q: of another model, other documents or other options", a.Task)
		}
	}
	return nil
}
