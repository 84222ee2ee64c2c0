package suite

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// question is the question of a document.
type question struct {
	doc     *item
	context string
	// rest are the continuations to be scored: the choices, or the target.
	rest    []string
	choices []string
	gold    gold
	media   []Medium
}

// Medium is an image or a sound of a document.
type Medium struct {
	Kind string // image, audio
	Path string // a file, or
	Data []byte // its content
}

// shots chooses the examples of documents in turn.
type shots struct {
	t   *Task
	rnd *twister
}

// of returns the examples for a document.
func (s *shots) of(d *item) ([]*item, error) {
	n, pool := s.t.Shots, s.t.pool
	if n == 0 {
		return nil, nil
	}
	other := func(o *item) bool { return !s.t.same || !o.equal(d) }
	if s.t.spec.ShotConfig.Sampler == "first_n" {
		var out []*item
		for _, o := range pool {
			if other(o) && len(out) < n {
				out = append(out, o)
			}
		}
		return out, nil
	}
	draw := n
	if s.t.same {
		draw++
	}
	var out []*item
	for _, i := range s.rnd.sample(len(pool), draw) {
		if other(pool[i]) && len(out) < n {
			out = append(out, pool[i])
		}
	}
	if len(out) == n {
		return out, nil
	}
	// The pool repeats the document: draw again from the others.
	var rest []*item
	for _, o := range pool {
		if other(o) {
			rest = append(rest, o)
		}
	}
	if len(rest) < n {
		return nil, fmt.Errorf("document %d: got %d other documents for %d examples", d.id, len(rest), n)
	}
	out = out[:0]
	for _, i := range s.rnd.sample(len(rest), n) {
		out = append(out, rest[i])
	}
	return out, nil
}

// prompts returns the questions of documents, with their examples.
func (t *Task) prompts(docs []*item) ([]question, error) {
	s := &shots{t, newTwister(t.seed)}
	out := make([]question, len(docs))
	for i, d := range docs {
		examples, err := s.of(d)
		if err == nil {
			out[i], err = t.question(d, examples)
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			t.many = strings.HasPrefix(string(out[i].gold.raw), "[")
		}
	}
	return out, nil
}

// question returns the question of a document after examples.
func (t *Task) question(d *item, examples []*item) (q question, err error) {
	q.doc = d
	if q.gold, err = t.goldOf(t.target, t.choice, d); err != nil {
		return q, err
	}
	if t.choice != nil {
		if q.choices, err = t.choice.list(t, d); err != nil {
			return q, err
		}
	}
	if t.spec.Output == Rolling {
		q.rest = q.gold.texts
		return q, nil
	}
	if q.context, err = t.context(d, examples); err != nil {
		return q, err
	}
	switch t.spec.Output {
	case Choice:
		if len(q.choices) == 0 {
			return q, fmt.Errorf("doc_to_choice of document %d: got no choices", d.id)
		}
		for _, c := range q.choices {
			q.rest = append(q.rest, t.targetDelim()+c)
		}
	case Likelihood:
		q.rest = q.gold.texts[:min(1, len(q.gold.texts))]
	}
	if q.media, err = t.mediaOf(d); err != nil {
		return q, err
	}
	return q, nil
}

// context returns the text before the answer.
func (t *Task) context(d *item, examples []*item) (string, error) {
	var b strings.Builder
	text, err := t.description.textOf(t, d)
	if err != nil {
		return "", err
	}
	b.WriteString(text)
	for _, e := range examples {
		if err := t.example(&b, e); err != nil {
			return "", err
		}
	}
	ask, err := t.text.textOf(t, d)
	if err != nil {
		return "", err
	}
	prefix, err := t.prefix.textOf(t, d)
	if err != nil {
		return "", err
	}
	b.WriteString(ask)
	if prefix != "" && separate(ask, prefix) {
		b.WriteString(t.targetDelim())
	}
	b.WriteString(prefix)
	return b.String(), nil
}

// example writes a question with its answer.
func (t *Task) example(b *strings.Builder, e *item) error {
	c := t.spec.ShotConfig
	ask, err := t.shotText.textOf(t, e)
	if err != nil {
		return err
	}
	prefix, err := t.prefix.textOf(t, e)
	if err != nil {
		return err
	}
	g, err := t.goldOf(t.shotTarget, t.shotChoice, e)
	if err != nil {
		return err
	}
	var choices []string
	if t.shotChoice != nil {
		if choices, err = t.shotChoice.list(t, e); err != nil {
			return err
		}
	}
	answer, err := g.answer(choices)
	if err != nil {
		return fmt.Errorf("example %d: %w", e.id, err)
	}
	b.WriteString(ask)
	if prefix == "" && answer != "" || separate(ask, prefix) {
		b.WriteString(or(c.TargetDelim, t.targetDelim()))
	}
	b.WriteString(prefix)
	if answer == "" {
		return nil
	}
	if separate(prefix, answer) {
		b.WriteByte(' ')
	}
	b.WriteString(answer)
	b.WriteString(or(c.ShotDelim, t.shotDelim()))
	return nil
}

// apart reports whether two texts need a space between them.
func separate(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	return !unicode.IsSpace(last) && !unicode.IsSpace(first)
}
