package farm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"mm-abi.org/mm/internal/diag"
)

// Status is the state of a queue.
type Status struct {
	Waiting int     `json:"waiting"` // jobs
	Running int     `json:"running"`
	Results int     `json:"results"`
	Written int     `json:"-"` // results since the queue exists
	Classes []Class `json:"classes"`
	Workers []Alive `json:"workers"`
}

// Class is a set of needs with its jobs.
type Class struct {
	Needs   []string `json:"needs"`
	Waiting int      `json:"waiting"`
	Running int      `json:"running"`
	Workers int      `json:"workers"` // that meet the needs
}

// Alive is a worker that was seen within half a minute.
type Alive struct {
	Name         string `json:"name"`
	Capabilities string `json:"capabilities"`
}

// Status reads the state of the queue.
func (q *Queue) Status(ctx context.Context) (Status, error) {
	var s Status
	err := request(ctx, func(ctx context.Context) error {
		s = Status{Workers: []Alive{}, Classes: []Class{}}
		return errors.Join(q.alive(ctx, &s), q.waiting(ctx, &s), q.written(ctx, &s))
	})
	return s, err
}

// alive lists the workers.
func (q *Queue) alive(ctx context.Context, s *Status) error {
	keys, err := q.present.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil
	}
	slices.Sort(keys)
	for _, k := range keys {
		e, err := q.present.Get(ctx, k)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		s.Workers = append(s.Workers, Alive{k, string(e.Value())})
	}
	return err
}

// waiting counts the jobs without a result.
func (q *Queue) waiting(ctx context.Context, s *Status) error {
	list := q.stream.ListConsumers(ctx)
	for info := range list.Info() {
		c := Class{Waiting: int(info.NumPending), Running: info.NumAckPending}
		if err := json.Unmarshal([]byte(info.Config.Metadata[needsKey]), &c.Needs); err != nil {
			continue // of another program
		}
		if c.Needs == nil {
			c.Needs = []string{}
		}
		for _, w := range s.Workers {
			can := Capabilities{}
			if can.Add(w.Capabilities) == nil && can.Meets(c.Needs) {
				c.Workers++
			}
		}
		s.Waiting, s.Running = s.Waiting+c.Waiting, s.Running+c.Running
		s.Classes = append(s.Classes, c)
	}
	slices.SortFunc(s.Classes, func(a, b Class) int { return slices.Compare(a.Needs, b.Needs) })
	return list.Err()
}

// written counts the results.
func (q *Queue) written(ctx context.Context, s *Status) error {
	info, err := q.log.Info(ctx)
	if err == nil {
		s.Results, s.Written = int(info.State.Msgs), int(info.State.LastSeq)
	}
	return err
}

// Write writes the state as text.
func (s Status) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d jobs wait, %d run, %d results\n", s.Waiting, s.Running, s.Results)
	for _, c := range s.Classes {
		needs := strings.Join(c.Needs, ",")
		if needs == "" {
			needs = "nothing"
		}
		_, e := fmt.Fprintf(w, "need %s: %d wait, %d run, %d workers\n", diag.Printable(needs), c.Waiting, c.Running, c.Workers)
		err = errors.Join(err, e)
	}
	for _, a := range s.Workers {
		_, e := fmt.Fprintf(w, "worker %s: %s\n", diag.Printable(a.Name), diag.Printable(a.Capabilities))
		err = errors.Join(err, e)
	}
	return err
}

// Fetch writes the files of a result to the folder of its job in dir, unless dir is empty.
func (q *Queue) Fetch(ctx context.Context, r Result, dir string) error {
	if dir == "" {
		return nil
	}
	for name, sum := range r.Outputs {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("job %.12s…: output %q leaves its folder", r.Job, name)
		}
		if err := q.GetFile(ctx, sum, filepath.Join(dir, r.Job), name); err != nil {
			return err
		}
	}
	return nil
}
