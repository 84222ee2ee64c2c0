package records

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

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/onnx/htp"
)

// The files of a registry, relative to its folder.
const (
	File        = "backends.jsonl"
	EvidenceDir = "evidence"
)

// maxEvidence is the maximum size of a record in bytes, as in package evidence.
const maxEvidence = 4 << 20

// Capability is a capability of a backend.
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

// Backend describes a backend.
type Backend struct {
	ID           string       `json:"id"`
	Family       string       `json:"family"`
	Capabilities []Capability `json:"capabilities"`
	Phone        bool         `json:"requires_phone,omitempty"`
	Confirm      bool         `json:"requires_soc_confirmation,omitempty"`
	Notes        string       `json:"notes,omitempty"`
}

// Confirmation is a chip for which a record confirms a backend.
type Confirmation struct {
	SoC      string `json:"soc"`
	Evidence string `json:"evidence"` // hex SHA-256 of the record file
	Key      string `json:"key"`      // ID of the trusted key that signed the record
}

// Entry is a backend with its confirmations.
type Entry struct {
	Backend
	Confirmed []Confirmation `json:"confirmed_for_socs"`
	Refused   []string       `json:"refused,omitempty"` // confirmations without a valid record, and the reason
}

// Chips returns the chips that the backend is confirmed for, with their evidence.
func (e Entry) Chips() string {
	switch {
	case len(e.Confirmed) == 0 && e.Confirm:
		return "none"
	case len(e.Confirmed) == 0:
		return "not needed"
	}
	var chips []string
	for _, c := range e.Confirmed {
		chips = append(chips, fmt.Sprintf("%s (%.12s)", c.SoC, c.Evidence))
	}
	return strings.Join(chips, " ")
}

// row is a row of the registry file: a backend or a promotion.
type row struct {
	Backend  *Backend `json:"backend,omitempty"`
	Promoted string   `json:"promoted,omitempty"` // ID of a backend
	Evidence string   `json:"evidence,omitempty"` // hex SHA-256
}

// Defaults returns the built-in backends.
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

// Registry is an open registry. The defaults come first, then the added backends.
type Registry struct {
	Entries []Entry
	dir     string
	chips   htp.Chips
	trusted []evidence.Verifier
}

// Open reads the registry in dir, whose files may be missing, and verifies its evidence
// against the trusted keys.
func Open(dir string, chips htp.Chips, trusted []evidence.Verifier) (*Registry, error) {
	r := &Registry{dir: dir, chips: chips, trusted: trusted}
	rows, err := Read[row](filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}
	for _, b := range Defaults() {
		if err := r.add(b); err != nil {
			return nil, err
		}
	}
	for i, w := range rows {
		if err := r.apply(w); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filepath.Join(dir, File), i+1, err)
		}
	}
	return r, nil
}

// apply applies a row.
func (r *Registry) apply(w row) error {
	switch {
	case w.Backend != nil && w.Promoted == "" && w.Evidence == "":
		if e := r.find(w.Backend.ID); e != nil && reflect.DeepEqual(e.Backend, *w.Backend) {
			return nil // two processes may write equal rows
		}
		return r.add(*w.Backend)
	case w.Backend == nil && w.Promoted != "" && w.Evidence != "":
		e := r.find(w.Promoted)
		if e == nil {
			return fmt.Errorf("unknown backend %q", w.Promoted)
		}
		c, err := r.stored(e.Backend, w.Evidence)
		if err != nil { // reported, but does not confirm
			e.Refused = append(e.Refused, fmt.Sprintf("%.12s: %v", w.Evidence, err))
			return nil
		}
		if !slices.Contains(e.Confirmed, c) {
			e.Confirmed = append(e.Confirmed, c)
		}
		return nil
	}
	return errors.New("row must hold either a backend or a promotion")
}

func (r *Registry) add(b Backend) error {
	families, all := []string{CPU, GPU, NPU, Fallback, Simulator}, capabilities()
	switch {
	case b.ID == "" || strings.ContainsFunc(b.ID, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("invalid backend name %q", b.ID)
	case r.find(b.ID) != nil:
		return fmt.Errorf("backend %q exists", b.ID)
	case !slices.Contains(families, b.Family):
		return fmt.Errorf("backend %s: unknown family %q, want one of %v", b.ID, b.Family, families)
	case b.Family == NPU && !b.Confirm:
		return fmt.Errorf("backend %s: an NPU needs confirmation", b.ID)
	}
	for _, c := range b.Capabilities {
		if !slices.Contains(all, c) {
			return fmt.Errorf("backend %s: unknown capability %q, want one of %v", b.ID, c, all)
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

// stored verifies a record in the registry's folder.
func (r *Registry) stored(b Backend, digest string) (c Confirmation, err error) {
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return c, fmt.Errorf("not a SHA-256: %q", digest)
	}
	data, err := fsx.ReadFile(filepath.Join(r.dir, EvidenceDir, digest+".json"), maxEvidence)
	if errors.Is(err, fs.ErrNotExist) {
		return c, errors.New("record missing")
	}
	if err != nil {
		return c, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return c, errors.New("record changed")
	}
	c, err = r.judge(b, data)
	c.Evidence = digest
	return c, err
}

// judge returns the chip for which a record confirms a backend, and the key that signed it.
func (r *Registry) judge(b Backend, data []byte) (c Confirmation, err error) {
	rec, err := evidence.Read(bytes.NewReader(data))
	if err != nil {
		return c, err
	}
	if !b.Confirm || b.Family != NPU {
		return c, fmt.Errorf("backend %s needs no confirmation, the record is for an NPU", b.ID)
	}
	name, ok := evidence.Promotes(rec)
	if !ok {
		return c, fmt.Errorf("record does not prove that the chip computed the result: %s", reasons(rec))
	}
	chip, ok := r.chips.Named(name)
	if !ok {
		return c, fmt.Errorf("unknown chip %q", name)
	}
	c.SoC = chip.Name
	c.Key, err = rec.SignedBy(r.trusted)
	return c, err
}

// reasons returns the verdicts that do not pass.
func reasons(rec evidence.Record) string {
	var out []string
	for _, v := range evidence.Judge(rec) {
		if v.Outcome != evidence.Pass && v.Outcome != evidence.Exempt {
			out = append(out, fmt.Sprintf("%s: %s", v.Name, v.Reason))
		}
	}
	return strings.Join(out, "; ")
}

// ConfirmedFor reports whether a record confirms the backend for a chip.
func (r *Registry) ConfirmedFor(id, chip string) bool {
	e := r.find(id)
	c, ok := r.chips.Named(chip)
	return ok && e != nil && slices.ContainsFunc(e.Confirmed, func(x Confirmation) bool { return strings.EqualFold(x.SoC, c.Name) })
}

// Routable returns the IDs of the backends with a capability on a chip. If chip is empty,
// backends that require a phone or a confirmation are left out.
func (r *Registry) Routable(c Capability, chip string) []string {
	var out []string
	for _, e := range r.Entries {
		if slices.Contains(e.Capabilities, c) && (!e.Phone || chip != "") && (!e.Confirm || r.ConfirmedFor(e.ID, chip)) {
			out = append(out, e.ID)
		}
	}
	return out
}

// Eligible returns those of ids that are Routable. Unknown IDs, capabilities and chips are
// errors.
func (r *Registry) Eligible(ids []string, c Capability, chip string) ([]string, error) {
	if !slices.Contains(capabilities(), c) {
		return nil, fmt.Errorf("unknown capability %q, want one of %v", c, capabilities())
	}
	if _, ok := r.chips.Named(chip); chip != "" && !ok {
		return nil, fmt.Errorf("unknown chip %q", chip)
	}
	var out []string
	routable := r.Routable(c, chip)
	for _, id := range ids {
		if r.find(id) == nil {
			return nil, fmt.Errorf("unknown backend %q", id)
		}
		if slices.Contains(routable, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// Promote stores the record at path as evidence for the backend and returns the
// confirmation. A record that does not prove it is not stored.
func (r *Registry) Promote(ctx context.Context, id, path string) (Confirmation, error) {
	e := r.find(id)
	if e == nil {
		return Confirmation{}, fmt.Errorf("unknown backend %q", id)
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
	err = Update(ctx, filepath.Join(r.dir, File), func(rows []row) ([]row, error) {
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

// Add adds a backend, at most once also if processes add it at the same time.
func (r *Registry) Add(ctx context.Context, b Backend) error {
	return Update(ctx, filepath.Join(r.dir, File), func(rows []row) ([]row, error) {
		for _, w := range rows {
			if w.Backend != nil && w.Backend.ID == b.ID {
				return nil, fmt.Errorf("backend %q exists", b.ID)
			}
		}
		if err := r.add(b); err != nil {
			return nil, err
		}
		return []row{{Backend: &b}}, nil
	})
}
