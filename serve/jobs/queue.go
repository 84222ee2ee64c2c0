package jobs

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mm-abi.org/mm/serve/api"
)

// submit queues a job and answers 202 with its place.
func (j *Jobs) submit(c *api.Call, kind, ref string, seconds *float64, do work) error {
	limit := j.opt.Time
	if seconds != nil {
		if !(*seconds > 0) {
			return api.Invalid("timeout_s", "timeout_s: want more than 0")
		}
		if *seconds < limit.Seconds() {
			limit = max(time.Millisecond, time.Duration(*seconds*float64(time.Second)))
		}
	}
	select {
	case <-j.server.Draining():
		return api.ErrShutdown()
	default:
	}
	one := &job{id: j.server.ID("job_"), kind: kind, key: c.Key, ref: ref, limit: limit, work: do, created: j.server.Now(), changed: make(chan struct{})}
	j.mu.Lock()
	if err := j.room(c.Key); err != nil {
		j.mu.Unlock()
		return err
	}
	j.all = append(j.all, one)
	one.enter(queued)
	j.next()
	v := one.view()
	j.mu.Unlock()
	c.W.Header().Set("Location", "/jobs/"+one.id)
	return c.ReplyStatus(http.StatusAccepted, v)
}

// room refuses a job beyond the queue, of which a key may use half. The mutex is held.
func (j *Jobs) room(key string) error {
	waiting, own := 0, 0
	for _, one := range j.all {
		if one.state != queued {
			continue
		}
		if waiting++; one.key == key {
			own++
		}
	}
	if waiting < j.opt.Queue && (key == "" || own < max(1, j.opt.Queue/2)) {
		return nil
	}
	return &api.Error{Status: http.StatusTooManyRequests, Kind: api.RateLimit, Code: "queue_full", Message: fmt.Sprintf("%d jobs wait already, %d of this key", waiting, own), Retry: 5 * time.Second}
}

// next starts waiting jobs while places are free. The mutex is held.
func (j *Jobs) next() {
	for j.running < j.opt.Running {
		one := j.choose()
		if one == nil {
			return
		}
		t, err := j.server.Begin()
		if err != nil { // the server shuts down
			j.finish(one, nil, err)
			continue
		}
		ctx, stop := context.WithCancelCause(t.Context())
		one.stop, one.started = stop, j.server.Now()
		j.running++
		one.enter(running)
		go j.run(ctx, t, one) // the drain of the server waits for the task
	}
}

// choose returns the waiting job of the key with the fewest running ones, the oldest of them.
func (j *Jobs) choose() (found *job) {
	busy := map[string]int{}
	for _, one := range j.all {
		if one.state == running {
			busy[one.key]++
		}
	}
	for _, one := range j.all {
		if one.state == queued && (found == nil || busy[one.key] < busy[found.key]) {
			found = one
		}
	}
	return found
}

// run computes a job and starts the next one.
func (j *Jobs) run(ctx context.Context, t *api.Task, one *job) {
	defer t.End()
	timed, stop := context.WithTimeoutCause(ctx, one.limit, errTime)
	defer stop()
	result, digest, err := j.guarded(timed, t, one)
	if cause := context.Cause(timed); err != nil && cause != nil {
		err = cause
	}
	j.opt.Ended(one.kind, one.ref, digest, err)
	j.mu.Lock()
	defer j.mu.Unlock()
	one.stop(nil)
	j.running--
	j.finish(one, result, err)
	j.next()
}

// guarded computes a job. A panic outside the goroutine of a connection would end the server.
func (j *Jobs) guarded(ctx context.Context, t *api.Task, one *job) (result any, digest string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	return one.work(ctx, t, func(name string, v any) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if !one.over() {
			one.add(name, v)
		}
	})
}

// forget drops the oldest finished jobs of a key beyond those that are kept. The mutex is held.
func (j *Jobs) forget(key string) {
	kept := 0
	for i := len(j.all) - 1; i >= 0; i-- {
		if one := j.all[i]; one.key != key || !one.over() {
			continue
		}
		if kept++; kept > j.opt.Kept {
			j.all = slices.Delete(j.all, i, i+1)
		}
	}
}
