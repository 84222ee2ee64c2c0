package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// Cache keeps outcomes by the digest of what they depend on. The zero value keeps none.
type Cache struct {
	Dir string
	// Model identifies the build, the engine and its settings, and this program.
	Model string
}

// maxOutcome is the size in bytes of the largest outcome that is read.
const maxOutcome = 1 << 27

// key returns the digest of a task on the cache's model.
func (c Cache) key(t *Task, data string) string {
	sum := sha256.New()
	for _, part := range []string{"1", c.Model, string(t.config), data, fmt.Sprint(t.Shots, t.limit, t.seed)} {
		fmt.Fprintf(sum, "%d\n%s\n", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Ask returns the kept outcome of a task, or asks the model and keeps the outcome. The
// model is made on the first task that needs it.
func (c Cache) Ask(ctx context.Context, t *Task, model func() (Model, error), opt RunOptions) (o *Outcome, kept bool, err error) {
	media, data, err := t.recorded()
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if o != nil {
			o.record(media, data)
		}
	}()
	path := ""
	if c.Dir != "" {
		path = filepath.Join(c.Dir, c.key(t, data)+".json")
		if o := read(path); o != nil {
			return o, true, nil
		}
	}
	m, err := model()
	if err != nil {
		return nil, false, err
	}
	if o, err = t.Ask(ctx, m, opt); err != nil || path == "" {
		return o, false, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, false, fmt.Errorf("outcome of %s: %w", t.Name, err)
	}
	if err := makeDir(c.Dir); err != nil {
		return nil, false, err
	}
	return o, false, fsx.WriteFile(path, b.Bytes(), 0o644)
}

// read reads a kept outcome; nil: it is absent or incomplete.
func read(path string) *Outcome {
	data, err := fsx.ReadFile(path, maxOutcome)
	if err != nil {
		return nil
	}
	var o Outcome
	if json.Unmarshal(data, &o) != nil || o.Task == "" {
		return nil
	}
	return &o
}

// makeDir makes a folder if it is absent.
func makeDir(path string) error {
	d, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	return d.Close()
}
