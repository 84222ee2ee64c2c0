// Package soc knows Qualcomm's chips: QNN's number of each, the architecture of
// its HTP and the memory beside that. The table is data, socs.csv, with the
// source of each row; makers' tables disagree, so a chip may stand in several
// rows, and [ReadChips] takes rows of one's own, which come before.
//
// The number is QNN's soc_model, which context binaries carry. The soc_id of
// Linux is another one.
package fit

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/htp"
)

//go:embed socs.csv
var table []byte

// maxTable is the most bytes of a table, and maxRows of its rows.
const (
	maxTable = 1 << 20
	maxRows  = 4096
)

// Chip is a row of the table.
type Chip struct {
	Name   string
	Model  uint32
	Arch   htp.Arch
	VTCM   uint32 // bytes of the HTP's own memory; 0 where nobody says
	Source string
}

// Chips is a table, whose earlier rows win.
type Chips []Chip

// Lacks says why nothing, or nothing with floats in it, is compiled for a chip, and
// what to do; "": nothing is known to be lacking.
func (c Chip) Lacks(floats bool) (why, hint string) {
	switch {
	case c.Arch == 0:
	case c.Arch < htp.FirstHTP:
		return fmt.Sprintf("%s (%s) has a DSP and no HTP", c.Name, c.Arch), fmt.Sprintf("name a chip of %s or later: mm qnn soc ls lists them", htp.FirstHTP)
	case floats && c.Arch < htp.FirstFloats:
		return fmt.Sprintf("nobody has shown that the HTP of %s (%s) computes in 16-bit floats, and the emulation takes 32 bits for them", c.Name, c.Arch), "take the precision w8a8 or w8a16"
	}
	return "", ""
}

// KnownChips is the table of this release. Below v68 a chip has a DSP and no HTP.
func KnownChips() Chips {
	c, err := ReadChips(bytes.NewReader(table))
	if err != nil {
		panic("soc: " + err.Error()) // the file is part of the program
	}
	return c
}

// ReadChips reads a table with the heading soc,model,arch,vtcm_mib,source. What
// nobody says of the VTCM is left empty.
func ReadChips(r io.Reader) (Chips, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTable {
		return nil, fmt.Errorf("a table of chips of more than %d bytes", maxTable)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != "soc,model,arch,vtcm_mib,source" {
		return nil, errors.New("a table of chips begins with soc,model,arch,vtcm_mib,source")
	}
	if len(rows) > maxRows {
		return nil, fmt.Errorf("a table of chips of more than %d rows", maxRows)
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
		return c, fmt.Errorf("%q with the model %q", row[0], row[1])
	}
	if c.Arch, err = htp.ParseArch("v" + strings.TrimPrefix(row[2], "v")); err != nil {
		return c, err
	}
	if row[3] != "" {
		mib, err := strconv.ParseUint(row[3], 10, 10)
		if err != nil {
			return c, fmt.Errorf("%q is no number of MiB", row[3])
		}
		c.VTCM = uint32(mib) << 20
	}
	c.Model = uint32(model)
	return c, nil
}

// Named finds a chip by its name in any case, or by its number written as
// soc:69.
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

// Numbered finds the first chip of a number, which several share.
func (c Chips) Numbered(model uint32) (Chip, bool) {
	for _, x := range c {
		if x.Model == model {
			return x, true
		}
	}
	return Chip{}, false
}

// Has reports whether a chip of that name has that number, in any row.
func (c Chips) Has(name string, model uint32) bool {
	for _, x := range c {
		if strings.EqualFold(x.Name, name) && x.Model == model {
			return true
		}
	}
	return false
}

// Names lists the names of the chips that have a number.
func (c Chips) Names(model uint32) []string {
	var out []string
	for _, x := range c {
		if x.Model == model {
			out = append(out, x.Name)
		}
	}
	return out
}
