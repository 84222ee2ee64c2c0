// Package registry knows the backends of an experiment, what each can do, and on
// which chips one that must prove itself has.
//
// A backend that needs confirmation runs on a chip only where a stored record of
// a device (package evidence) shows it: [Registry.Promote] copies the record, under its
// SHA-256, beside the registry and notes it, and [Open] judges every record anew.
// A confirmation is therefore never a word in a file: without its record, with
// another, with one that was simulated in any part, or with one that no trusted
// key has signed, it is none. A chip that
// nobody names, or that is in no table, is confirmed for nothing.
package backends

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/records"
)

// The files of a registry in its folder.
const (
	File        = "backends.jsonl"
	EvidenceDir = "evidence"
)

// maxEvidence bounds a record in bytes, as package evidence does.
const maxEvidence = 4 << 20

// Capability is something a backend can do.
type Capability string

// The capabilities.
const (
	TrainForward  Capability = "training_forward"
	TrainBackward Capability = "training_backward"
	Inference     Capability = "inference_only"
	Frozen        Capability = "frozen_subgraph_inference"
	Optimizer     Capability = "optimizer_step"
	Evaluation    Capability = "eval_only"
)

func capabilities() []Capability {
	return []Capability{TrainForward, TrainBackward, Inference, Frozen, Optimizer, Evaluation}
}

// The families of backends.
const (
	CPU       = "cpu"
	GPU       = "gpu"
	NPU       = "npu"
	Fallback  = "fallback"
	Simulator = "host_sim"
)

// Backend is one of them.
type Backend struct {
	ID           string       `json:"id"`
	Family       string       `json:"family"`
	Capabilities []Capability `json:"capabilities"`
	Phone        bool         `json:"requires_phone,omitempty"`
	Confirm      bool         `json:"requires_soc_confirmation,omitempty"`
	Notes        string       `json:"notes,omitempty"`
}

// Confirmation is a chip that a backend has been promoted for, by a record.
type Confirmation struct {
	SoC      string `json:"soc"`
	Evidence string `json:"evidence"` // hex SHA-256 of the record's file
	Key      string `json:"key"`      // id of the trusted key that signed it
}

// Entry is a backend with the chips that it is confirmed for.
type Entry struct {
	Backend
	Confirmed []Confirmation `json:"confirmed_for_socs"`
	Refused   []string       `json:"refused,omitempty"` // confirmations whose record does not bear them, and why
}

// row is a line of the registry's file: a backend or a promotion.
type row struct {
	Backend  *Backend `json:"backend,omitempty"`
	Promoted string   `json:"promoted,omitempty"` // id of a backend
	Evidence string   `json:"evidence,omitempty"` // hex SHA-256
}

// Defaults are the backends of a registry that nobody has added to.
func Defaults() []Backend {
	all := []Capability{TrainForward, TrainBackward, Optimizer, Evaluation}
	return []Backend{
		{ID: "host_sim", Family: Simulator, Capabilities: all},
		{ID: "android_cpu", Family: CPU, Capabilities: all, Phone: true},
		{ID: "vulkan_gpu", Family: GPU, Capabilities: []Capability{TrainForward, TrainBackward, Frozen}, Phone: true},
		{ID: "litert_qnn", Family: NPU, Capabilities: []Capability{Frozen, Inference}, Phone: true, Confirm: true},
		{ID: "fallback_cpu", Family: Fallback, Capabilities: append(slices.Clone(all), Frozen)},
	}
}

// Registry is what [Open] read. Entries keep their order: the defaults, then
// those that were added.
type Registry struct {
	Entries []Entry
	dir     string
	chips   fit.Chips
	trusted []evidence.Verifier
}

// Open reads the registry in dir, whose files may be missing, and judges its
// evidence: what none of the trusted keys has signed confirms nothing.
func Open(dir string, chips fit.Chips, trusted []evidence.Verifier) (*Registry, error) {
	r := &Registry{dir: dir, chips: chips, trusted: trusted}
	rows, err := records.Read[row](filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}
	for _, b := range Defaults() {
		if err := r.add(b); err != nil {
			return nil, err
		}
	}
	for i, w := range rows {
		if err := r.take(w); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filepath.Join(dir, File), i+1, err)
		}
	}
	return r, nil
}

// take takes in a row.
func (r *Registry) take(w row) error {
	switch {
	case w.Backend != nil && w.Promoted == "" && w.Evidence == "":
		if e := r.find(w.Backend.ID); e != nil && reflect.DeepEqual(e.Backend, *w.Backend) {
			return nil // the same twice is what two processes left
		}
		return r.add(*w.Backend)
	case w.Backend == nil && w.Promoted != "" && w.Evidence != "":
		e := r.find(w.Promoted)
		if e == nil {
			return fmt.Errorf("there is no backend %q", w.Promoted)
		}
		c, err := r.stored(e.Backend, w.Evidence)
		if err != nil { // told, and worth nothing
			e.Refused = append(e.Refused, fmt.Sprintf("%.12s: %v", w.Evidence, err))
			return nil
		}
		if !slices.Contains(e.Confirmed, c) {
			e.Confirmed = append(e.Confirmed, c)
		}
		return nil
	}
	return errors.New("it is neither a backend nor a promotion")
}

func (r *Registry) add(b Backend) error {
	families, known := []string{CPU, GPU, NPU, Fallback, Simulator}, capabilities()
	switch {
	case b.ID == "" || strings.ContainsFunc(b.ID, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("%q is no name of a backend", b.ID)
	case r.find(b.ID) != nil:
		return fmt.Errorf("there is a backend %q already", b.ID)
	case !slices.Contains(families, b.Family):
		return fmt.Errorf("backend %s: the family %q is none of %v", b.ID, b.Family, families)
	case b.Family == NPU && !b.Confirm:
		return fmt.Errorf("backend %s: an NPU needs confirmation", b.ID)
	}
	for _, c := range b.Capabilities {
		if !slices.Contains(known, c) {
			return fmt.Errorf("backend %s: the capability %q is none of %v", b.ID, c, known)
		}
	}
	r.Entries = append(r.Entries, Entry{Backend: b, Confirmed: []Confirmation{}})
	return nil
}

func (r *Registry) find(id string) *Entry {
	for i := range r.Entries {
		if r.Entries[i].ID == id {
			return &r.Entries[i]
		}
	}
	return nil
}

// stored judges a record of the registry's own folder.
func (r *Registry) stored(b Backend, digest string) (c Confirmation, err error) {
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return c, fmt.Errorf("%q is no SHA-256", digest)
	}
	data, err := fsx.ReadFile(filepath.Join(r.dir, EvidenceDir, digest+".json"), maxEvidence)
	if errors.Is(err, fs.ErrNotExist) {
		return c, errors.New("its record is not there")
	}
	if err != nil {
		return c, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return c, errors.New("its record is another")
	}
	c, err = r.judge(b, data)
	c.Evidence = digest
	return c, err
}

// judge says for which chip a record confirms a backend, and by whose word.
func (r *Registry) judge(b Backend, data []byte) (c Confirmation, err error) {
	rec, err := evidence.Read(bytes.NewReader(data))
	if err != nil {
		return c, err
	}
	if !b.Confirm || b.Family != NPU {
		return c, fmt.Errorf("the backend %s needs no confirmation, and the record is of an NPU", b.ID)
	}
	name, ok := evidence.Promotes(rec)
	if !ok {
		return c, fmt.Errorf("it does not show that the chip computed it: %s", reasons(rec))
	}
	chip, ok := r.chips.Named(name)
	if !ok {
		return c, fmt.Errorf("no table knows the chip %q", name)
	}
	c.SoC = chip.Name
	c.Key, err = rec.Vouched(r.trusted)
	return c, err
}

// reasons are the verdicts that do not pass.
func reasons(rec evidence.Record) string {
	var out []string
	for _, v := range evidence.Judge(rec) {
		if v.Outcome != evidence.Pass && v.Outcome != evidence.Exempt {
			out = append(out, fmt.Sprintf("%s: %s", v.Name, v.Reason))
		}
	}
	return strings.Join(out, "; ")
}

// ConfirmedFor reports whether a record confirms the backend for a chip of the
// table.
func (r *Registry) ConfirmedFor(id, chip string) bool {
	e := r.find(id)
	c, ok := r.chips.Named(chip)
	return ok && e != nil && slices.ContainsFunc(e.Confirmed, func(x Confirmation) bool { return strings.EqualFold(x.SoC, c.Name) })
}

// Routable lists the ids of the backends that can do something on a chip, or
// without one where it is empty: a backend that must be confirmed is then none
// of them, and neither is one that needs a phone.
func (r *Registry) Routable(what Capability, chip string) []string {
	var out []string
	for _, e := range r.Entries {
		if slices.Contains(e.Capabilities, what) && (!e.Phone || chip != "") && (!e.Confirm || r.ConfirmedFor(e.ID, chip)) {
			out = append(out, e.ID)
		}
	}
	return out
}

// Eligible are those of ids that can do something on a chip, or without one where
// it is empty, as Routable has it. An id, a capability or a chip that nobody knows
// is an error.
func (r *Registry) Eligible(ids []string, what Capability, chip string) ([]string, error) {
	if !slices.Contains(capabilities(), what) {
		return nil, fmt.Errorf("the capability %q is none of %v", what, capabilities())
	}
	if _, ok := r.chips.Named(chip); chip != "" && !ok {
		return nil, fmt.Errorf("no table knows the chip %q", chip)
	}
	var out []string
	routable := r.Routable(what, chip)
	for _, id := range ids {
		if r.find(id) == nil {
			return nil, fmt.Errorf("there is no backend %q", id)
		}
		if slices.Contains(routable, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// Promote stores the record at path as the evidence that the backend works, and
// returns the chip. Nothing is stored of a record that does not promote.
func (r *Registry) Promote(ctx context.Context, id, path string) (Confirmation, error) {
	e := r.find(id)
	if e == nil {
		return Confirmation{}, fmt.Errorf("there is no backend %q", id)
	}
	data, err := fsx.ReadFile(path, maxEvidence)
	if err != nil {
		return Confirmation{}, err
	}
	c, err := r.judge(e.Backend, data)
	if err != nil {
		return Confirmation{}, fmt.Errorf("promoting %s by %s: %w", id, path, err)
	}
	sum := sha256.Sum256(data)
	c.Evidence = hex.EncodeToString(sum[:])
	if slices.Contains(e.Confirmed, c) {
		return c, nil
	}
	dir, err := fsx.Create(filepath.Join(r.dir, EvidenceDir), 0o755, fsx.Options{})
	if err != nil {
		return c, err
	}
	defer dir.Close()
	if err := dir.WriteFile(c.Evidence+".json", data, 0o644); err != nil {
		return c, err
	}
	err = records.Update(ctx, filepath.Join(r.dir, File), func(rows []row) ([]row, error) {
		w := row{Promoted: id, Evidence: c.Evidence}
		if slices.Contains(rows, w) {
			return nil, nil
		}
		return []row{w}, nil
	})
	if err != nil {
		return c, err
	}
	e.Confirmed = append(e.Confirmed, c)
	return c, nil
}

// Add notes a backend of one's own. It is not there twice, whoever adds it at the
// same time.
func (r *Registry) Add(ctx context.Context, b Backend) error {
	return records.Update(ctx, filepath.Join(r.dir, File), func(rows []row) ([]row, error) {
		for _, w := range rows {
			if w.Backend != nil && w.Backend.ID == b.ID {
				return nil, fmt.Errorf("there is a backend %q already", b.ID)
			}
		}
		if err := r.add(b); err != nil {
			return nil, err
		}
		return []row{{Backend: &b}}, nil
	})
}
