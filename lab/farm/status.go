package farm

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
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
