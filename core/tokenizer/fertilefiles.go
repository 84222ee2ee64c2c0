package tokenizer

import (
	"errors"
	"fmt"
)

// FileFertility is the fertility of a file.
type FileFertility struct {
	File     string `json:"file"`
	Language string `json:"language,omitempty"`
	Name     string `json:"name,omitempty"`
	Fertility
	Ratio *FertilityRatio `json:"ratio,omitempty"` // if there is a base
}

// MeasureFiles measures files and compares them with the first file in the base language.
// It reports whether there is one.
func MeasureFiles(files []string, base string, encode Encoder) (list []FileFertility, found bool, err error) {
	of := -1
	for _, file := range files {
		text, fault := ReadText(file)
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		if text.Language == base && of < 0 {
			of = len(list)
		}
		list = append(list, FileFertility{File: file, Language: text.Language, Name: text.Name, Fertility: MeasureFertility(text.Text, encode)})
	}
	if err != nil || of < 0 {
		return list, false, err
	}
	for i := range list {
		r := CompareFertility(list[i].Fertility, list[of].Fertility)
		list[i].Ratio = &r
	}
	return list, true, nil
}

// FertilityHeading is the heading of [FileFertility.Row].
func FertilityHeading(base string) []string {
	return []string{"FILE", "LANGUAGE", "WORDS", "TOKENS", "A WORD", "A CHARACTER", "A BYTE", "WORD/" + base, "TOKENS/" + base}
}

// Row returns the figures as cells of a table.
func (f FileFertility) Row() []string {
	word := fmt.Sprint(f.Words)
	if f.ByChar {
		word += "*" // characters
	}
	row := []string{f.File, f.Language, word, fmt.Sprint(f.Tokens), fmt.Sprintf("%.2f", f.PerWord), fmt.Sprintf("%.3f", f.PerCharacter), fmt.Sprintf("%.3f", f.PerByte), "", ""}
	if f.Ratio != nil {
		row[7], row[8] = fmt.Sprintf("%.2f", f.Ratio.Word), fmt.Sprintf("%.2f", f.Ratio.Parallel)
		if f.Ratio.High {
			row[8] += " !"
		}
	}
	return row
}
