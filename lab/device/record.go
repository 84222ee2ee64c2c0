package device

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
)

// ReadRecord reads a record. If it was modified, the error is a diagnostic.
func ReadRecord(path string) (evidence.Record, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return evidence.Record{}, err
	}
	defer f.Close()
	r, err := evidence.Read(f)
	return r, RecordFault(path, err)
}

// RecordFault returns the diagnostic of an error of package evidence about the
// record at path. Other errors get the path.
func RecordFault(path string, err error) error {
	for _, c := range []struct {
		err  error
		code diag.Code
	}{
		{evidence.ErrChanged, diag.EvidenceChanged}, {evidence.ErrUnsigned, diag.EvidenceUnsigned}, {evidence.ErrUntrusted, diag.EvidenceStranger}, {evidence.ErrForged, diag.EvidenceForged},
	} {
		if errors.Is(err, c.err) {
			var l diag.List
			l.Add(c.code, diag.Pos{File: path}, err.Error(), c.code.Fix())
			return l.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// JudgeRecord judges the record of a file, with a fault for each check that it misses.
func JudgeRecord(path string, r evidence.Record) (*Outcome, error) {
	var l diag.List
	o := &Outcome{Record: r, Verdicts: evidence.Judge(r)}
	if o.SoC, o.Promotes = evidence.Promotes(r); !o.Promotes {
		for _, v := range o.Verdicts {
			if v.Outcome != evidence.Pass && v.Outcome != evidence.Exempt {
				l.Add(diag.EvidenceShort, diag.Pos{File: path}, fmt.Sprintf("%s: %s: %s", v.Name, v.Outcome, v.Reason), diag.EvidenceShort.Fix())
			}
		}
	}
	return o, l.Err()
}
