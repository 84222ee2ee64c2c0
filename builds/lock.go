package builds

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

// Lock is a NAME.lock.yaml: the exact modules of one graph. mm lock maintains
// it; it is sorted and normalized, so that every difference in version control
// is meaningful.
type Lock struct {
	Version int         `json:"version"`
	Graph   LockedGraph `json:"graph"`
	Modules []Locked    `json:"modules"`

	File string `json:"-"`
	doc  *schemas.Document
}

// LockedGraph names the graph that was locked.
type LockedGraph struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
}

// Locked is one module pinned to its bytes.
type Locked struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	Type      abi.ModuleType `json:"type"`
	ABI       abi.Version    `json:"abi,omitempty"`
	License   string         `json:"license,omitempty"`
	Source    string         `json:"source"` // folder, "store", layout or registry repository
	Digest    string         `json:"digest"` // of the OCI manifest
	Size      int64          `json:"size"`   // of all layers, in bytes
	Requested []Request      `json:"requested,omitempty"`
	SignedBy  []string       `json:"signed_by,omitempty"` // ids of the keys that released it
	Files     []LockedFile   `json:"files,omitempty"`

	// Limits hold for a call of a skill in this build; nil in the locks of older
	// programs.
	Limits *modules.Effective `json:"limits,omitempty"`
}

// Request records which module requested another, and how.
type Request struct {
	By  string `json:"by"` // "graph", or the name@version of a module
	Ref string `json:"ref"`
}

// LockedFile is one layer of a module.
type LockedFile struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

const lockHeader = "# Maintained by mm lock. Keep it under version control; do not edit it.\n"

// LoadLock reads the lock in file.
func LoadLock(file string) (*Lock, diag.List) {
	data, list := schemas.ReadFile(file, diag.LockMissing)
	if list.Failed() {
		return nil, list
	}
	return ParseLock(file, data)
}

// ParseLock parses a lock; a duplicate module is an error.
func ParseLock(file string, data []byte) (*Lock, diag.List) {
	doc, list := schemas.Load(schemas.Lock, file, data)
	if list.Failed() {
		return nil, list
	}
	l := &Lock{File: file, doc: doc}
	if err := doc.Decode(l); err != nil {
		list.Add(diag.WrongType, diag.Pos{File: file}, err.Error(), "")
		return nil, list
	}
	seen := map[string]int{}
	for i, m := range l.Modules {
		if first, ok := seen[m.Name]; ok {
			list.Add(diag.RepeatedItem, doc.Pos(fmt.Sprintf("/modules/%d", i)), fmt.Sprintf("%s is locked already on line %d", m.Name, doc.Pos(fmt.Sprintf("/modules/%d", first)).Line), "run mm lock")
		}
		seen[m.Name] = i
	}
	return l, list
}

// MergeLock reads a lock with merge conflicts and returns the pins on which both sides
// agree, and the line of the first conflict, which is 0 in a lock without one.
func MergeLock(file string, data []byte) (l *Lock, line int, list diag.List) {
	ours, theirs, line := schemas.Sides(data)
	if line == 0 || ours == nil || theirs == nil {
		l, list = ParseLock(file, data)
		return l, line, list
	}
	l, list = ParseLock(file, ours)
	other, faults := ParseLock(file, theirs)
	if list = append(list, faults...); list.Failed() {
		_, list = ParseLock(file, data) // the lines of a side are not those of the file
		return nil, line, list
	}
	l.Modules = slices.DeleteFunc(l.Modules, func(m Locked) bool {
		o, ok := other.Find(m.Name)
		return !ok || o.Digest != m.Digest || o.Version != m.Version
	})
	return l, line, list
}

// Encode writes the lock in its normal form.
func (l *Lock) Encode() ([]byte, error) {
	l.Version = 1
	slices.SortFunc(l.Modules, func(a, b Locked) int { return cmp.Compare(a.Name, b.Name) })
	for i := range l.Modules {
		m := &l.Modules[i]
		slices.SortFunc(m.Requested, func(a, b Request) int {
			return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Ref, b.Ref))
		})
		slices.SortFunc(m.Files, func(a, b LockedFile) int { return cmp.Compare(a.Path, b.Path) })
		slices.Sort(m.SignedBy)
	}
	b, err := schemas.Encode(l)
	if err != nil {
		return nil, err
	}
	return append([]byte(lockHeader), b...), nil
}

// Find returns the locked module called name.
func (l *Lock) Find(name string) (Locked, bool) {
	for _, m := range l.Modules {
		if m.Name == name {
			return m, true
		}
	}
	return Locked{}, false
}

// Pos is the place of a locked module in the lock file.
func (l *Lock) Pos(name string) diag.Pos {
	for i, m := range l.Modules {
		if m.Name == name && l.doc != nil {
			return l.doc.Pos(fmt.Sprintf("/modules/%d", i))
		}
	}
	return diag.Pos{File: l.File}
}

// Stale reports every reference of the graph that the lock does not answer.
func (l *Lock) Stale(g *Graph) diag.List {
	var list diag.List
	for _, n := range g.Nodes() {
		pos := g.Pos(n.Ptr + "/ref")
		m, ok := l.Find(n.Ref.Name)
		if !ok {
			list.Add(diag.LockStale, pos, fmt.Sprintf("%s is not in %s", n.Ref, l.File), "run mm lock")
			continue
		}
		v, err := abi.ParseVersion(m.Version)
		if err != nil || !n.Ref.Allows(v) || n.Ref.Digest != "" && n.Ref.Digest != m.Digest {
			list.Add(diag.LockStale, pos, fmt.Sprintf("%s asks for %s, the lock has %s %s", g.Name, n.Ref, m.Version, m.Digest), "run mm lock --update "+m.Name)
		}
	}
	return list
}

// Digest returns the SHA-256 of a graph file with line ends normalized, so
// that a checkout on Windows does not make a lock stale.
func Digest(data []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))))
}

// NewLock is an empty lock for the graph whose file holds data.
func NewLock(g *Graph, data []byte) *Lock {
	return &Lock{Version: 1, Graph: LockedGraph{filepath.Base(g.File), Digest(data)}, File: g.LockFile()}
}
