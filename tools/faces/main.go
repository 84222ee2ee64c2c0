// Command faces extracts the outlines of letters, digits and a few signs from
// fonts and writes them to a small file, train/dataset/fonts/faces.bin, for the
// text in training images and for skills/figure. It is run by hand (make faces);
// its output is deterministic.
//
// The file is a DEFLATE stream of: the number of faces; for each its split (0
// train, 1 held out), its name (length, bytes) and the number of its glyphs;
// for each of them its rune, its advance and the number of its segments; for
// each of them 0 (move), 1 (line), 2 (quadratic) or 3 (cubic) and the points,
// each as two differences from the previous point. Numbers are varints, signed
// for advances and differences. Lengths are in 1/1024 of the em, y down from
// the baseline.
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"flag"
	"fmt"
	"os"

	"github.com/go-fonts/dejavu/dejavusans"
	"github.com/go-fonts/dejavu/dejavusansbold"
	"github.com/go-fonts/dejavu/dejavusanscondensed"
	"github.com/go-fonts/dejavu/dejavusansextralight"
	"github.com/go-fonts/dejavu/dejavusansmono"
	"github.com/go-fonts/dejavu/dejavusansmonobold"
	"github.com/go-fonts/dejavu/dejavusansoblique"
	"github.com/go-fonts/dejavu/dejavuserif"
	"github.com/go-fonts/dejavu/dejavuserifbold"
	"github.com/go-fonts/dejavu/dejavuserifcondensed"
	"github.com/go-fonts/dejavu/dejavuserifitalic"
	"github.com/go-fonts/latin-modern/lmmono10italic"
	"github.com/go-fonts/latin-modern/lmmono10regular"
	"github.com/go-fonts/latin-modern/lmmonolt10bold"
	"github.com/go-fonts/latin-modern/lmmonoprop10regular"
	"github.com/go-fonts/latin-modern/lmroman10bold"
	"github.com/go-fonts/latin-modern/lmroman10italic"
	"github.com/go-fonts/latin-modern/lmroman10regular"
	"github.com/go-fonts/latin-modern/lmromandemi10regular"
	"github.com/go-fonts/latin-modern/lmromandunh10regular"
	"github.com/go-fonts/latin-modern/lmromanslant10bold"
	"github.com/go-fonts/latin-modern/lmsans10bold"
	"github.com/go-fonts/latin-modern/lmsans10oblique"
	"github.com/go-fonts/latin-modern/lmsans10regular"
	"github.com/go-fonts/latin-modern/lmsansdemicond10regular"
	"github.com/go-fonts/liberation/liberationmonobold"
	"github.com/go-fonts/liberation/liberationmonobolditalic"
	"github.com/go-fonts/liberation/liberationmonoitalic"
	"github.com/go-fonts/liberation/liberationmonoregular"
	"github.com/go-fonts/liberation/liberationsansbold"
	"github.com/go-fonts/liberation/liberationsansbolditalic"
	"github.com/go-fonts/liberation/liberationsansitalic"
	"github.com/go-fonts/liberation/liberationsansregular"
	"github.com/go-fonts/liberation/liberationserifbold"
	"github.com/go-fonts/liberation/liberationserifbolditalic"
	"github.com/go-fonts/liberation/liberationserifitalic"
	"github.com/go-fonts/liberation/liberationserifregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gobolditalic"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/gofont/gosmallcaps"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// em is the size in which outlines are written.
const em = 1024

const runes = " !%'+,-./0123456789:=?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

type face struct {
	split uint64
	name  string
	ttf   []byte
}

const train, held = 0, 1

var faces = []face{
	{train, "Go Regular", goregular.TTF}, {train, "Go Bold", gobold.TTF}, {train, "Go Italic", goitalic.TTF},
	{train, "Go Bold Italic", gobolditalic.TTF}, {train, "Go Medium", gomedium.TTF}, {train, "Go Mono", gomono.TTF},
	{train, "Go Mono Bold", gomonobold.TTF}, {train, "Go Smallcaps", gosmallcaps.TTF},

	{train, "DejaVu Sans", dejavusans.TTF}, {train, "DejaVu Sans Bold", dejavusansbold.TTF},
	{train, "DejaVu Sans Oblique", dejavusansoblique.TTF}, {train, "DejaVu Sans Condensed", dejavusanscondensed.TTF},
	{train, "DejaVu Sans ExtraLight", dejavusansextralight.TTF}, {train, "DejaVu Sans Mono", dejavusansmono.TTF},
	{train, "DejaVu Sans Mono Bold", dejavusansmonobold.TTF}, {train, "DejaVu Serif", dejavuserif.TTF},
	{train, "DejaVu Serif Bold", dejavuserifbold.TTF}, {train, "DejaVu Serif Condensed", dejavuserifcondensed.TTF},
	{train, "DejaVu Serif Italic", dejavuserifitalic.TTF},

	{train, "LM Mono 10 Italic", lmmono10italic.TTF}, {train, "LM Mono 10", lmmono10regular.TTF}, {train, "LM Mono Light 10 Bold", lmmonolt10bold.TTF},
	{train, "LM Mono Prop 10", lmmonoprop10regular.TTF}, {train, "LM Roman 10", lmroman10regular.TTF}, {train, "LM Roman 10 Bold", lmroman10bold.TTF},
	{train, "LM Roman 10 Italic", lmroman10italic.TTF}, {train, "LM Roman Demi 10", lmromandemi10regular.TTF},
	{train, "LM Roman Dunhill 10", lmromandunh10regular.TTF}, {train, "LM Roman Slanted 10 Bold", lmromanslant10bold.TTF},
	{train, "LM Sans 10", lmsans10regular.TTF}, {train, "LM Sans 10 Bold", lmsans10bold.TTF}, {train, "LM Sans 10 Oblique", lmsans10oblique.TTF},
	{train, "LM Sans Demi Cond 10", lmsansdemicond10regular.TTF},

	{held, "Liberation Mono", liberationmonoregular.TTF}, {held, "Liberation Mono Bold", liberationmonobold.TTF},
	{held, "Liberation Mono Bold Italic", liberationmonobolditalic.TTF}, {held, "Liberation Mono Italic", liberationmonoitalic.TTF},
	{held, "Liberation Sans", liberationsansregular.TTF}, {held, "Liberation Sans Bold", liberationsansbold.TTF},
	{held, "Liberation Sans Bold Italic", liberationsansbolditalic.TTF}, {held, "Liberation Sans Italic", liberationsansitalic.TTF},
	{held, "Liberation Serif", liberationserifregular.TTF}, {held, "Liberation Serif Bold", liberationserifbold.TTF},
	{held, "Liberation Serif Bold Italic", liberationserifbolditalic.TTF}, {held, "Liberation Serif Italic", liberationserifitalic.TTF},
}

func main() {
	out := flag.String("out", "faces.bin", "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "faces:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	b := binary.AppendUvarint(nil, uint64(len(faces)))
	for _, f := range faces {
		var err error
		if b, err = f.append(b); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%d faces, %d bytes, %d packed\n", len(faces), len(b), packed.Len())
	return os.WriteFile(out, packed.Bytes(), 0o644)
}

// append appends a face to b.
func (f face) append(b []byte) ([]byte, error) {
	parsed, err := sfnt.Parse(f.ttf)
	if err != nil {
		return nil, err
	}
	b = binary.AppendUvarint(b, f.split)
	b = append(binary.AppendUvarint(b, uint64(len(f.name))), f.name...)
	b = binary.AppendUvarint(b, uint64(len(runes)))
	var buf sfnt.Buffer
	for _, r := range runes {
		g, err := parsed.GlyphIndex(&buf, r)
		if err != nil {
			return nil, err
		}
		if g == 0 {
			return nil, fmt.Errorf("has no %q", r)
		}
		advance, err := parsed.GlyphAdvance(&buf, g, em, font.HintingNone)
		if err != nil {
			return nil, err
		}
		segments, err := parsed.LoadGlyph(&buf, g, em, nil)
		if err != nil {
			return nil, err
		}
		b = binary.AppendVarint(binary.AppendUvarint(b, uint64(r)), int64(advance))
		b = binary.AppendUvarint(b, uint64(len(segments)))
		var last fixed.Point26_6
		for _, s := range segments {
			points := map[sfnt.SegmentOp]int{sfnt.SegmentOpMoveTo: 1, sfnt.SegmentOpLineTo: 1, sfnt.SegmentOpQuadTo: 2, sfnt.SegmentOpCubeTo: 3}[s.Op]
			b = binary.AppendUvarint(b, uint64(s.Op))
			for _, q := range s.Args[:points] {
				b = binary.AppendVarint(binary.AppendVarint(b, int64(q.X-last.X)), int64(q.Y-last.Y))
				last = q
			}
		}
	}
	return b, nil
}
