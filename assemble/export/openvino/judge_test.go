package openvino

import (
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/exporttest"
)

// The files for the judge of make exports are written.
func TestJudge(t *testing.T) { exporttest.Judge(t, export.Lowered{Form: Form{}}) }

// The language models for the same judges.
func TestLanguage(t *testing.T) { exporttest.Language(t, export.Lowered{Form: Form{}}) }
