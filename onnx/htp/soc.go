// The table of Qualcomm's chips, socs.csv, has the source of each row: QNN's
// number, the architecture of the HTP and its memory. Vendors' tables disagree,
// so a chip may have several rows; rows that a user adds with [ReadChips] come
// first.
//
// The number is QNN's soc_model, which context binaries carry. The soc_id of
// Linux is a different number.

package htp

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

//go:embed socs.csv
var fitTable []byte

// Limits of a table of chips: bytes and rows.
const (
	maxTable = 1 << 20
	maxRows  = 4096
)

// Chip is a row of the table.
type Chip struct {
	Name   string
	Model  uint32
	Arch   Arch
	VTCM   uint32 // bytes of the HTP's memory; 0 if unknown
	Source string
}

// Chips is a table whose earlier rows take precedence.
type Chips []Chip

// Lacks returns why models, or models with floats, cannot be compiled for a
// chip, and a hint; "" if nothing is known to be missing.
func (c Chip) Lacks(floats bool) (why, hint string) {
	switch {
	case c.Arch == 0:
	case c.Arch < FirstHTP:
		return fmt.Sprintf("%s (%s) has a DSP and no HTP", c.Name, c.Arch), fmt.Sprintf("name a chip of %s or later: mm qnn soc ls lists them", FirstHTP)
	case floats && c.Arch < FirstFloats:
		return fmt.Sprintf("16-bit floats are unproven on the HTP of %s (%s), and the emulation uses 32 bits for them", c.Name, c.Arch), "use the precision w8a8 or w8a16"
	}
	return "", ""
}

// KnownChips returns the table of this release. Below v68 a chip has a DSP and
// no HTP.
func KnownChips() Chips {
	c, err := ReadChips(bytes.NewReader(fitTable))
	if err != nil {
		panic("soc: " + err.Error()) // the file is embedded
	}
	return c
}

// ReadChips parses a table with the header soc,model,arch,vtcm_mib,source. An
// unknown VTCM is left empty.
func ReadChips(r io.Reader) (Chips, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTable {
		return nil, fmt.Errorf("table of chips exceeds %d bytes", maxTable)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != "soc,model,arch,vtcm_mib,source" {
		return nil, errors.New("bad header of the table of chips, want soc,model,arch,vtcm_mib,source")
	}
	if len(rows) > maxRows {
		return nil, fmt.Errorf("table of chips exceeds %d rows", maxRows)
	}
	var out Chips
	for i, row := range rows[1:] {
		c, err := chip(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+2, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func chip(row []string) (Chip, error) {
	c := Chip{Name: strings.ToUpper(strings.TrimSpace(row[0])), Source: row[4]}
	model, err := strconv.ParseUint(row[1], 10, 16)
	if err != nil || model == 0 || c.Name == "" {
		return c, fmt.Errorf("bad chip %q with the model %q", row[0], row[1])
	}
	if c.Arch, err = ParseArch("v" + strings.TrimPrefix(row[2], "v")); err != nil {
		return c, err
	}
	if row[3] != "" {
		mib, err := strconv.ParseUint(row[3], 10, 10)
		if err != nil {
			return c, fmt.Errorf("bad number of MiB %q", row[3])
		}
		c.VTCM = uint32(mib) << 20
	}
	c.Model = uint32(model)
	return c, nil
}

// Named returns a chip by its name, case-insensitively, or by number as soc:69.
func (c Chips) Named(name string) (Chip, bool) {
	if text, ok := strings.CutPrefix(strings.ToLower(name), "soc:"); ok {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return Chip{}, false
		}
		return c.Numbered(uint32(n))
	}
	for _, x := range c {
		if strings.EqualFold(x.Name, name) {
			return x, true
		}
	}
	return Chip{}, false
}

// Unknown returns the error for a name that the table lacks.
func (c Chips) Unknown(name string) error {
	var names []string
	for _, x := range c {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return fmt.Errorf("unknown chip %q, want one of %s, or soc:NUMBER of one of them", name, strings.Join(slices.Compact(names), ", "))
}

// Numbered returns the first chip with a number, which several share.
func (c Chips) Numbered(model uint32) (Chip, bool) {
	for _, x := range c {
		if x.Model == model {
			return x, true
		}
	}
	return Chip{}, false
}

// Has reports whether any row has that name and number.
func (c Chips) Has(name string, model uint32) bool {
	for _, x := range c {
		if strings.EqualFold(x.Name, name) && x.Model == model {
			return true
		}
	}
	return false
}

// Names returns the names of the chips with a number.
func (c Chips) Names(model uint32) []string {
	var out []string
	for _, x := range c {
		if x.Model == model {
			out = append(out, x.Name)
		}
	}
	return out
}
