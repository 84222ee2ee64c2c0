package openvino

import (
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/exporttest"
)

// The judge of make exports runs what is written here.
func TestJudge(t *testing.T) { exporttest.Judge(t, export.Lowered{Form: Form{}}) }
