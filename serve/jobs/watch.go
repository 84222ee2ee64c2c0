package jobs

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"mm-abi.org/mm/serve/api"
)

// find returns a job of the key of a request. The mutex is held.
func (j *Jobs) find(c *api.Call) (*job, error) {
	id := c.R.PathValue("id")
	for _, one := range j.all {
		if one.id == id && one.key == c.Key {
			return one, nil
		}
	}
	return nil, &api.Error{Status: http.StatusNotFound, Kind: api.InvalidRequest, Code: "unknown_job", Message: "unknown job " + strconv.Quote(id[:min(len(id), 80)])}
}

// list answers the jobs of a key, newest first, without their results.
func (j *Jobs) list(c *api.Call) error {
	out := []view{}
	j.mu.Lock()
	for _, one := range slices.Backward(j.all) {
		if one.key == c.Key {
			v := one.view()
			v.Result = nil
			out = append(out, v)
		}
	}
	j.mu.Unlock()
	return c.Reply(map[string]any{"jobs": out})
}

// show answers a job.
func (j *Jobs) show(c *api.Call) error {
	j.mu.Lock()
	one, err := j.find(c)
	if err != nil {
		j.mu.Unlock()
		return err
	}
	v := one.view()
	j.mu.Unlock()
	return c.Reply(v)
}

// cancel ends a job, or drops one that has ended. A running one ends when its work notices.
func (j *Jobs) cancel(c *api.Call) error {
	j.mu.Lock()
	one, err := j.find(c)
	if err != nil {
		j.mu.Unlock()
		return err
	}
	switch {
	case one.over():
		j.all = slices.DeleteFunc(j.all, func(o *job) bool { return o == one })
	case one.state == running:
		one.stop(errCancelled)
	default:
		j.finish(one, nil, errCancelled)
	}
	v := one.view()
	j.mu.Unlock()
	return c.Reply(v)
}

// events streams the events of a job, those after Last-Event-ID, until it has ended. A
// request after the last one has no content, which ends the attempts of a browser.
func (j *Jobs) events(c *api.Call) error {
	after := 0
	if text := c.R.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return api.Invalid("Last-Event-ID", "Last-Event-ID: got %.80q, want the number of an event", text)
		}
		after = n
	}
	j.mu.Lock()
	one, err := j.find(c)
	switch {
	case err == nil && !j.watchable(c.Key):
		err = &api.Error{Status: http.StatusTooManyRequests, Kind: api.RateLimit, Code: "watchers", Message: "too many streams of events", Retry: time.Second}
	case err == nil && one.over() && after >= one.count:
		j.mu.Unlock()
		return c.Write(http.StatusNoContent, "text/event-stream", nil)
	}
	if err != nil {
		j.mu.Unlock()
		return err
	}
	j.watchers[c.Key]++
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		if j.watchers[c.Key]--; j.watchers[c.Key] == 0 {
			delete(j.watchers, c.Key)
		}
		j.mu.Unlock()
	}()
	return j.follow(c, one, after)
}

// watchable reports whether a key may have a further stream of events. The mutex is held.
func (j *Jobs) watchable(key string) bool {
	all := 0
	for _, n := range j.watchers {
		all += n
	}
	return all < maxWatchers && (key == "" || j.watchers[key] < keyWatchers)
}

// follow sends the events of a job after a number until it has ended.
func (j *Jobs) follow(c *api.Call, one *job, after int) error {
	st := c.Stream(api.SSE, ": ping\n\n")
	defer st.End()
	for {
		j.mu.Lock()
		list, first := one.since(after)
		list = slices.Clone(list)
		over, changed := one.over(), one.changed
		j.mu.Unlock()
		for i, e := range list {
			if err := st.Numbered(first+i, e.name, e.data); err != nil {
				return err
			}
		}
		if after = first + len(list) - 1; over {
			return nil
		}
		select {
		case <-changed:
		case <-c.R.Context().Done():
			return nil
		}
	}
}
