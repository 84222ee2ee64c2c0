package farm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Executor executes an attempt of a job. An error is that of the attempt.
type Executor interface {
	Execute(ctx context.Context, id string, j Job) (Outcome, error)
}

// Outcome is the result of an attempt that succeeded.
type Outcome struct {
	Outputs map[string]string // hex SHA-256 by path; the queue has the content
	Tail    string            // end of the output
}

// Worker takes jobs out of a queue.
type Worker struct {
	Queue        *Queue
	Name         string // unique
	Capabilities Capabilities
	Executor     Executor
	Idle         time.Duration        // the worker ends after this time without a job; 0: never
	Tell         func(Result, string) // called with every result and its job's command; may be nil

	wait   time.Duration        // the shortest of them
	found  []jetstream.Consumer // of the needs that the worker meets, for a while
	listed time.Time
}

// Work executes jobs, one at a time, until ctx is done, which returns the current job,
// or no job came for the idle time.
func (w *Worker) Work(ctx context.Context) error {
	w.wait = w.Queue.opt.Wait
	stop := w.appear(ctx)
	defer stop()
	last := time.Now()
	for ctx.Err() == nil && (w.Idle == 0 || time.Since(last) < w.Idle) {
		m, err := w.take(ctx)
		if err != nil || m == nil {
			continue // no job, or no server: take paused
		}
		if err := w.handle(ctx, m); err != nil && ctx.Err() == nil {
			w.warn(err)
		}
		last = time.Now()
	}
	return ctx.Err()
}

func (w *Worker) warn(err error) {
	if w.Queue.opt.Warn != nil {
		w.Queue.opt.Warn(err.Error())
	}
}

// appear shows the worker to others until stop is called.
func (w *Worker) appear(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			one, end := context.WithTimeout(ctx, call)
			_, _ = w.Queue.present.Put(one, w.Name, []byte(w.Capabilities.String())) // repeated
			end()
			select {
			case <-ctx.Done():
			case <-time.After(presence / 3):
			}
		}
	}()
	return func() {
		cancel()
		<-done
		one, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		_ = w.Queue.present.Purge(one, w.Name) // otherwise it expires
	}
}

// The times of taking jobs.
const (
	longPoll  = time.Second
	shortPoll = 200 * time.Millisecond
	relist    = time.Second // after which new needs are looked for
)

// take returns the next job that the worker may execute, or nil after a pause without one.
func (w *Worker) take(ctx context.Context) (jetstream.Msg, error) {
	if time.Since(w.listed) > relist || len(w.found) == 0 {
		found, err := w.consumers(ctx)
		if err != nil || len(found) == 0 {
			return nil, errors.Join(err, pause(ctx, shortPoll))
		}
		w.found, w.listed = found, time.Now()
	}
	all := w.found
	if len(all) == 1 {
		return fetch(ctx, all[0], jetstream.FetchMaxWait(longPoll))
	}
	for _, c := range all {
		if m, err := fetch(ctx, c, nil); m != nil || err != nil {
			return m, err
		}
	}
	return nil, pause(ctx, shortPoll)
}

// fetch asks a consumer for one message, without waiting if wait is nil.
func fetch(ctx context.Context, c jetstream.Consumer, wait jetstream.FetchOpt) (jetstream.Msg, error) {
	var batch jetstream.MessageBatch
	var err error
	if wait == nil {
		batch, err = c.FetchNoWait(1)
	} else {
		batch, err = c.Fetch(1, wait)
	}
	if err != nil {
		return nil, errors.Join(err, pause(ctx, shortPoll))
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); err != nil {
		return nil, errors.Join(err, pause(ctx, shortPoll))
	}
	return nil, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// consumers returns the consumers of the needs that the worker meets, sorted.
func (w *Worker) consumers(ctx context.Context) ([]jetstream.Consumer, error) {
	one, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	list, wait := w.Queue.stream.ListConsumers(one), w.Queue.opt.Wait
	var names []string
	for info := range list.Info() {
		var needs []string
		if json.Unmarshal([]byte(info.Config.Metadata[needsKey]), &needs) == nil && w.Capabilities.Meets(needs) && info.Name == class(needs) {
			names = append(names, info.Name)
			wait = min(wait, info.Config.AckWait)
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	slices.Sort(names)
	w.wait = wait
	var out []jetstream.Consumer
	for _, name := range names {
		c, err := w.Queue.stream.Consumer(one, name)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// handle executes the job of a message, unless it has a result, and acknowledges it after
// the result is stored.
func (w *Worker) handle(ctx context.Context, m jetstream.Msg) error {
	id := hexSum(m.Data())
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	stop := w.progress(m)
	defer stop()
	done, err := w.Queue.Result(ctx, id)
	if err != nil {
		return err
	}
	if done != nil {
		return w.acknowledge(ctx, m)
	}
	r, err := w.attempt(ctx, id, m.Data(), int(min(meta.NumDelivered, 1<<20)))
	if err != nil {
		if ctx.Err() != nil {
			return errors.Join(err, m.Nak())
		}
		return errors.Join(err, m.NakWithDelay(retryAfter))
	}
	first, err := w.Queue.finish(ctx, r)
	if err != nil {
		return err
	}
	if w.Tell != nil && first {
		j, _ := Decode(m.Data())
		w.Tell(r, fmt.Sprint(j.Args))
	}
	return w.acknowledge(ctx, m)
}

// retryAfter is the pause after a failed attempt.
const retryAfter = time.Second

// acknowledge removes the message from the queue. If no server confirms, the message comes
// again and its result is found.
func (w *Worker) acknowledge(ctx context.Context, m jetstream.Msg) error {
	one, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	return m.DoubleAck(one)
}

// progress reports to the server that the job is in work, until stop is called.
func (w *Worker) progress(m jetstream.Msg) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(w.wait / 3):
				_ = m.InProgress() // without a server, the job is given to another worker
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// try is an attempt of a job that failed, or that a second delivery began.
type try struct {
	Worker string `json:"worker"`
	Error  string `json:"error,omitempty"` // empty: the worker did not end it
}

// attempt executes a job and returns its result. The error is that of an attempt that is
// not the last.
func (w *Worker) attempt(ctx context.Context, id string, data []byte, delivered int) (Result, error) {
	r := Result{Job: id, Worker: w.Name, Attempt: delivered}
	j, err := Decode(data)
	if err != nil {
		r.Errors = []string{err.Error()}
		return r, nil
	}
	var past []try
	if delivered > 1 {
		if past, err = w.past(ctx, id); err != nil {
			return r, err
		}
		if len(past) >= j.limit() {
			r.Errors = describe(past)
			return r, nil
		}
		if err := w.record(ctx, id, append(past, try{Worker: w.Name})); err != nil {
			return r, err
		}
	}
	begin := time.Now()
	out, err := w.execute(ctx, id, j)
	r.Seconds = time.Since(begin).Seconds()
	switch {
	case err == nil:
		r.Outputs, r.Tail = out.Outputs, out.Tail
		return r, nil
	case ctx.Err() != nil:
		return r, ctx.Err()
	}
	past = append(past, try{w.Name, err.Error()})
	if len(past) >= j.limit() {
		r.Errors, r.Tail = describe(past), out.Tail
		return r, nil
	}
	return r, errors.Join(err, w.record(ctx, id, past))
}

// execute executes a job within its limit of time.
func (w *Worker) execute(ctx context.Context, id string, j Job) (Outcome, error) {
	if j.Seconds == 0 {
		return w.Executor.Execute(ctx, id, j)
	}
	limit := time.Duration(j.Seconds) * time.Second
	one, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := w.Executor.Execute(one, id, j)
	if err != nil && ctx.Err() == nil && one.Err() != nil {
		err = fmt.Errorf("not complete after %v", limit)
	}
	return out, err
}

// past returns the attempts of a job that are recorded: that of the first delivery only if
// it failed.
func (w *Worker) past(ctx context.Context, id string) ([]try, error) {
	var out []try
	err := request(ctx, func(ctx context.Context) error {
		e, err := w.Queue.tries.Get(ctx, id)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(e.Value(), &out)
	})
	return out, err
}

// maxTail bounds the text of an error that is kept, in bytes.
const maxTail = 4 << 10

// record stores the attempts of a job.
func (w *Worker) record(ctx context.Context, id string, all []try) error {
	for i := range all {
		all[i].Error = all[i].Error[max(len(all[i].Error)-maxTail, 0):]
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return request(ctx, func(ctx context.Context) error {
		_, err := w.Queue.tries.Put(ctx, id, data)
		return err
	})
}

// describe returns the errors of attempts.
func describe(all []try) []string {
	out := make([]string, len(all))
	for i, t := range all {
		if out[i] = t.Error; t.Error == "" {
			out[i] = fmt.Sprintf("worker %s died, or lost the servers", t.Worker)
		}
	}
	return out
}
