package farm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The names of the streams and buckets of a queue.
const (
	stream   = "MM_JOBS"     // the jobs that have no result yet
	subjects = "mm.jobs."    // by class of needs
	results  = "mm_results"  // by job
	tries    = "mm_attempts" // of jobs that were delivered more than once, or failed
	present  = "mm_workers"
	blobs    = "mm_blobs"
	logged   = "$KV." + results + "." // subjects of the results
)

// The times of a queue.
const (
	defaultWait = 30 * time.Second
	duplicates  = 10 * time.Minute // in which the server drops a second publication; afterwards, the worker does
	presence    = 30 * time.Second
	kept        = 7 * 24 * time.Hour // attempts
)

// headers bounds the headers of a message, which the server adds to its size, in bytes.
const headers = 4 << 10

// needsKey is the key of the needs in the metadata of a consumer.
const needsKey = "mm-needs"

// Queue is a client of a queue.
type Queue struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	results jetstream.KeyValue
	log     jetstream.Stream // of the results
	tries   jetstream.KeyValue
	present jetstream.KeyValue
	blobs   jetstream.ObjectStore
	opt     Options

	classes sync.Map // names with a consumer
}

// Open connects to a queue and creates what it lacks.
func Open(ctx context.Context, opt Options) (*Queue, error) {
	conn, err := dial(ctx, opt)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	q := &Queue{conn: conn, opt: opt}
	if q.opt.Wait == 0 {
		q.opt.Wait = defaultWait
	}
	if q.opt.Replicas == 0 {
		q.opt.Replicas = 1
		if conn.ConnectedClusterName() != "" && len(conn.Servers()) >= 3 {
			q.opt.Replicas = 3
		}
	}
	if q.js, err = jetstream.New(conn); err == nil {
		err = q.prepare(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("queue: %w", err)
	}
	return q, nil
}

// Close closes the connection.
func (q *Queue) Close() error {
	q.conn.Close()
	return nil
}

// prepare opens the stream and the buckets, or creates them.
func (q *Queue) prepare(ctx context.Context) error {
	n := q.opt.Replicas
	err := request(ctx, func(ctx context.Context) (err error) {
		q.stream, err = q.js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			q.stream, err = q.js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subjects + ">"}, Retention: jetstream.WorkQueuePolicy,
				Storage: jetstream.FileStorage, Replicas: n, Duplicates: duplicates, MaxMsgSize: maxJob, Discard: jetstream.DiscardNew})
		}
		return err
	})
	for _, b := range []struct {
		to   *jetstream.KeyValue
		conf jetstream.KeyValueConfig
	}{
		{&q.results, jetstream.KeyValueConfig{Bucket: results, Replicas: n, History: 1, MaxValueSize: maxResult + headers}},
		{&q.tries, jetstream.KeyValueConfig{Bucket: tries, Replicas: n, TTL: kept}},
		{&q.present, jetstream.KeyValueConfig{Bucket: present, Replicas: n, TTL: presence}},
	} {
		if err != nil {
			break
		}
		err = request(ctx, func(ctx context.Context) (err error) {
			*b.to, err = q.js.KeyValue(ctx, b.conf.Bucket)
			if errors.Is(err, jetstream.ErrBucketNotFound) {
				*b.to, err = q.js.CreateKeyValue(ctx, b.conf)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	err = request(ctx, func(ctx context.Context) (err error) {
		q.log, err = q.js.Stream(ctx, "KV_"+results)
		return err
	})
	if err != nil {
		return err
	}
	return request(ctx, func(ctx context.Context) (err error) {
		q.blobs, err = q.js.ObjectStore(ctx, blobs)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			q.blobs, err = q.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: blobs, Replicas: n})
		}
		return err
	})
}

// classed creates the consumer of a class of needs.
func (q *Queue) classed(ctx context.Context, needs []string) error {
	name := class(needs)
	if _, exists := q.classes.Load(name); exists {
		return nil
	}
	text, err := json.Marshal(needs)
	if err != nil {
		return err
	}
	err = request(ctx, func(ctx context.Context) error {
		_, err := q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: name, FilterSubject: subjects + name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.opt.Wait,
			MaxDeliver: -1, MaxAckPending: -1, Metadata: map[string]string{needsKey: string(text)}})
		if errors.Is(err, jetstream.ErrConsumerExists) || errors.Is(err, jetstream.ErrConsumerNameAlreadyInUse) {
			return nil // with the wait of its first client
		}
		return err
	})
	if err == nil {
		q.classes.Store(name, true)
	}
	return err
}

// Submit puts a job into the queue, unless it has a result or waits already, and returns
// its ID. It repeats until a server has stored the job.
func (q *Queue) Submit(ctx context.Context, j Job) (string, error) {
	data, id, err := j.Encode()
	if err != nil {
		return "", err
	}
	done, forgotten, err := q.latest(ctx, id)
	if err != nil || done {
		return id, err
	}
	j, err = Decode(data)
	if err == nil {
		err = q.classed(ctx, j.Needs)
	}
	if err != nil {
		return id, err
	}
	return id, request(ctx, func(ctx context.Context) error {
		_, err := q.js.Publish(ctx, subjects+class(j.Needs), data, jetstream.WithMsgID(fmt.Sprintf("%s-%d", id, forgotten)))
		return err
	})
}

// latest reports whether a job has a result, and otherwise at which position of the log a
// result was forgotten: a submission after that is not a duplicate of the one before.
func (q *Queue) latest(ctx context.Context, id string) (done bool, forgotten uint64, err error) {
	err = request(ctx, func(ctx context.Context) error {
		m, err := q.log.GetLastMsgForSubject(ctx, logged+id)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			done, forgotten = len(m.Data) > 0, m.Sequence
		}
		return err
	})
	return done, forgotten, err
}

// Forget removes the result of a job that failed, so that it can be submitted again.
func (q *Queue) Forget(ctx context.Context, id string) error {
	r, err := q.Result(ctx, id)
	if err != nil || r == nil || r.Err() == nil {
		return err
	}
	for _, b := range []jetstream.KeyValue{q.tries, q.results} {
		if err := request(ctx, func(ctx context.Context) error { return b.Purge(ctx, id) }); err != nil {
			return err
		}
	}
	return nil
}

// Result returns the result of a job, or nil if it has none yet.
func (q *Queue) Result(ctx context.Context, id string) (*Result, error) {
	var r *Result
	err := request(ctx, func(ctx context.Context) error {
		e, err := q.results.Get(ctx, id)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err = decodeResult(id, e.Value())
		return err
	})
	return r, err
}

// finish creates the result of a job and reports whether this call created it. If the job
// has a result, that stays.
func (q *Queue) finish(ctx context.Context, r Result) (first bool, err error) {
	data, err := r.encode()
	if err != nil {
		return false, err
	}
	err = request(ctx, func(ctx context.Context) error {
		_, err := q.results.Create(ctx, r.Job, data)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return nil
		}
		first = err == nil
		return err
	})
	return first, err
}

// poll is the pause between two looks for new results.
const poll = 50 * time.Millisecond

// Wait calls each once with the result of every job, in the order of their arrival.
func (q *Queue) Wait(ctx context.Context, ids []string, each func(Result) error) error {
	open := map[string]bool{}
	for _, id := range ids {
		open[id] = true
	}
	take := func(r *Result) error {
		if !open[r.Job] {
			return nil
		}
		delete(open, r.Job)
		return each(*r)
	}
	log := &arrivals{stream: q.log}
	err := request(ctx, func(ctx context.Context) error {
		info, err := q.log.Info(ctx)
		if err == nil {
			log.last = info.State.LastSeq
		}
		return err
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, looks) {
		list, err := q.look(ctx, some)
		if err != nil {
			return err
		}
		for _, r := range list {
			if r == nil {
				continue
			}
			if err := take(r); err != nil {
				return err
			}
		}
	}
	for len(open) > 0 {
		id, data, err := log.next(ctx)
		if err != nil {
			return err
		}
		if !open[id] {
			continue // of another submission
		}
		r, err := decodeResult(id, data)
		if err != nil {
			return err
		}
		if err := take(r); err != nil {
			return err
		}
	}
	return nil
}

// looks is the number of results that Wait asks for at a time: a request each would
// take longer than the jobs.
const looks = 64

// look returns the results of jobs in the order of ids, nil for those without.
func (q *Queue) look(ctx context.Context, ids []string) ([]*Result, error) {
	list, errs := make([]*Result, len(ids)), make([]error, len(ids))
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() { list[i], errs[i] = q.Result(ctx, id) })
	}
	group.Wait()
	return list, errors.Join(errs...)
}

// arrivals follows the results as they are created.
type arrivals struct {
	stream jetstream.Stream
	last   uint64
}

// next returns the bytes of the next result and its job. It polls: a subscription that a change of leader ends
// silently would wait forever.
func (a *arrivals) next(ctx context.Context) (id string, data []byte, err error) {
	for {
		var m *jetstream.RawStreamMsg
		err := request(ctx, func(ctx context.Context) (err error) {
			m, err = a.stream.GetMsg(ctx, a.last+1, jetstream.WithGetMsgSubject(logged+">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				m, err = nil, nil
			}
			return err
		})
		if err == nil && m == nil {
			err = pause(ctx, poll)
		}
		if err != nil {
			return "", nil, err
		}
		if m == nil {
			continue
		}
		a.last = m.Sequence
		if len(m.Data) > 0 { // otherwise forgotten
			return m.Subject[len(logged):], m.Data, nil
		}
	}
}
