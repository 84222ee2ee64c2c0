package builds

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/schemas"
)

// CompatFile is the name of the compatibility table in the graphs' folder.
const CompatFile = "compat.csv"

// compatHeader names the columns of the table. The word generated tells
// editors not to change it.
var compatHeader = []string{"build", "core", "core_version", "module", "version", "type", "abi", "result", "digest"}

// CompatRow records that one module was checked with one core in one build.
type CompatRow struct {
	Build, Core, CoreVersion, Module, Version string
	Type                                      abi.ModuleType
	ABI                                       abi.Version
	Result                                    string // "fits" or "faults"
	Digest                                    string // of the module that was checked
}

// Compat is the table of checked combinations.
type Compat []CompatRow

// ParseCompat reads a table that Encode wrote.
func ParseCompat(data []byte) (Compat, error) {
	if ours, theirs, line := schemas.Sides(data); line > 0 {
		return mergeCompat(ours, theirs, line)
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = len(compatHeader)
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CompatFile, err)
	}
	if len(records) == 0 || !slices.Equal(records[0], compatHeader) {
		return nil, fmt.Errorf("reading %s: its first line is not the header that mm lock writes", CompatFile)
	}
	var c Compat
	for _, f := range records[1:] {
		c = append(c, CompatRow{f[0], f[1], f[2], f[3], f[4], abi.ModuleType(f[5]), abi.Version(f[6]), f[7], f[8]})
	}
	return c, nil
}

// mergeCompat returns the rows of both sides of a table with merge conflicts. Rows of the
// same modules in the same build are those of the first side; mm lock replaces them.
func mergeCompat(ours, theirs []byte, line int) (Compat, error) {
	if ours == nil || theirs == nil {
		return nil, fmt.Errorf("reading %s: a conflict marker of a merge on line %d has no counterpart", CompatFile, line)
	}
	c, err := ParseCompat(ours)
	if err != nil {
		return nil, err
	}
	other, err := ParseCompat(theirs)
	if err != nil {
		return nil, err
	}
	for _, r := range other {
		if !slices.ContainsFunc(c, func(o CompatRow) bool {
			return o.Build == r.Build && o.Core == r.Core && o.CoreVersion == r.CoreVersion && o.Module == r.Module && o.Version == r.Version
		}) {
			c = append(c, r)
		}
	}
	return c, nil
}

// Replace returns the table with all rows of one build exchanged.
func (c Compat) Replace(build string, rows Compat) Compat {
	out := slices.DeleteFunc(slices.Clone(c), func(r CompatRow) bool { return r.Build == build })
	return append(out, rows...)
}

// Encode writes the table as CSV, sorted.
func (c Compat) Encode() []byte {
	rows := slices.Clone(c)
	slices.SortFunc(rows, func(a, b CompatRow) int {
		return cmp.Or(cmp.Compare(a.Build, b.Build), cmp.Compare(a.Core, b.Core), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Version, b.Version))
	})
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	w.Write(compatHeader) // a bytes.Buffer accepts every write
	for _, r := range rows {
		w.Write([]string{r.Build, r.Core, r.CoreVersion, r.Module, r.Version, string(r.Type), string(r.ABI), r.Result, r.Digest})
	}
	w.Flush()
	return buf.Bytes()
}

// CompatRows are the rows of one locked build; none of a build without a core,
// whose modules were checked with nothing.
func (l *Lock) CompatRows(build, result string) Compat {
	var core Locked
	for _, m := range l.Modules {
		if m.Type == abi.Core {
			core = m
		}
	}
	if core.Name == "" {
		return nil
	}
	var rows Compat
	for _, m := range l.Modules {
		rows = append(rows, CompatRow{build, core.Name, core.Version, m.Name, m.Version, m.Type, m.ABI, result, m.Digest})
	}
	return rows
}
