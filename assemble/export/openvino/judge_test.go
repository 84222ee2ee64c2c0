package openvino

import (
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/exporttest"
)

// The files for the judge of make exports are written.
func TestJudge(t *testing.T) { exporttest.Judge(t, export.Lowered{Form: Form{}}) }
