package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
)

// IdentityFile is the file that names the run of a folder.
const IdentityFile = "run.json"

// ErrIdentity reports that the chain in a folder is not that of its run.
var ErrIdentity = fmt.Errorf("%w: it is the chain of another run", chain.ErrBroken)

// maxIdentity is the maximum size of an identity file in bytes.
const maxIdentity = 4 << 10

// identity is the content of the identity file: the run and what its first row
// holds.
type identity struct {
	Run  string `json:"run"`
	Time string `json:"time"` // of the first row
	Plan string `json:"plan"` // hex SHA-256
}

// write writes the identity durably, before the first row of a run.
func (i identity) write(dir string, opt fsx.Options) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	d, err := fsx.Open(dir, opt)
	if err != nil {
		return err
	}
	return errors.Join(d.WriteFile(IdentityFile, append(text, '\n'), 0o644), d.Close())
}

// readIdentity reads the identity of the run in dir. If it has none, ok is false.
func readIdentity(dir string) (i identity, ok bool, err error) {
	data, err := fsx.ReadFile(filepath.Join(dir, IdentityFile), maxIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return i, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &i)
	}
	if err != nil {
		return i, false, fmt.Errorf("%w: %s: %v", ErrIdentity, IdentityFile, err)
	}
	return i, true, nil
}

// Check configures [Verify], [Summarize] and [ReadHistory].
type Check struct {
	Noted string // hash of a row that must exist; if empty, not checked
	Run   string // run that the chain must be of; if empty, that of the identity file
}

// Report is the result of [Verify].
type Report struct {
	chain.Report
	Simulated bool `json:"simulated,omitempty"` // with a simulated clock
}

// Verify verifies the chain of the run in dir and that it is the chain of that run:
// the row that starts it must match the identity file, or c.Run. A chain without a
// run has no identity.
func Verify(dir string, v chain.Verifier, c Check) (Report, error) {
	var out Report
	run := ""
	var err error
	out.Report, err = verify(dir, v, c, func(row chain.Row) error {
		if foreign(row, run) || run != "" {
			return nil
		}
		run = row.Run
		var p Payload
		err := json.Unmarshal(row.Payload, &p)
		out.Simulated = p.Simulated
		return err
	})
	return out, err
}

// verify verifies a chain and its identity, and calls each for its rows.
func verify(dir string, v chain.Verifier, c Check, each func(chain.Row) error) (chain.Report, error) {
	i := identifier{dir: dir, run: c.Run}
	r, err := chain.Verify(ChainIn(dir), v, chain.Options{Noted: c.Noted, Each: func(row chain.Row) error {
		if err := i.row(row); err != nil {
			return err
		}
		return each(row)
	}})
	if err == nil && r.Rows > 0 {
		err = i.end()
	}
	return r, err
}

// identifier compares the row that starts a run with the identity of the folder.
type identifier struct {
	dir  string
	run  string // if not empty, the run to find, also without an identity file
	seen bool
}

// read reads the identity of the run whose chain is in dir.
func (i *identifier) read() (identity, bool, error) {
	dir := i.dir
	if filepath.Base(dir) == ChainDir && ChainIn(dir) == dir {
		dir = filepath.Dir(dir)
	}
	return readIdentity(dir)
}

// row checks the first row of a run; others belong to it, or to no run.
func (i *identifier) row(row chain.Row) error {
	if i.seen || row.Event != Start {
		return nil
	}
	i.seen = true
	if i.run != "" && row.Run != i.run {
		return fmt.Errorf("%w: got %s, want %s", ErrIdentity, row.Run, i.run)
	}
	want, ok, err := i.read()
	switch {
	case err != nil:
		return err
	case !ok && i.run == "":
		return fmt.Errorf("%w: missing %s, which names the run of the folder; the chain is of %s", ErrIdentity, IdentityFile, row.Run)
	case !ok:
		return nil
	}
	var p Payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return fmt.Errorf("chain row %d: %w", row.Seq, err)
	}
	if got := (identity{row.Run, row.Time, p.Plan}); got != want {
		return fmt.Errorf("%w: got %s of %s with plan %.12s…; %s has %s of %s with plan %.12s…", ErrIdentity, got.Run, got.Time, got.Plan, IdentityFile, want.Run, want.Time, want.Plan)
	}
	return nil
}

// end refuses a chain without the run that its folder names.
func (i *identifier) end() error {
	if i.seen {
		return nil
	}
	want, ok, err := i.read()
	if err != nil {
		return err
	}
	if ok || i.run != "" {
		return fmt.Errorf("%w: it has no run, want %s", ErrIdentity, want.Run+i.run)
	}
	return nil
}

// ChainIn returns the folder of a chain: the chain subfolder of a run, otherwise
// dir.
func ChainIn(dir string) string {
	own := filepath.Join(dir, ChainDir)
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return own
	}
	return dir
}

// Append appends a row of an event to the chain in a folder for each payload.
func Append[T any](ctx context.Context, dir string, key chain.Signer, v chain.Verifier, run, event string, payloads []T) error {
	log, err := chain.Open(ctx, ChainIn(dir), key, v, fsx.Options{}, nil)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	for _, payload := range payloads {
		if _, err := log.Append(now, run, event, payload); err != nil {
			return errors.Join(err, log.Close())
		}
	}
	return log.Close()
}
