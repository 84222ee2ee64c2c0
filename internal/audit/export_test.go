package audit

const (
	MaxLine = maxLine
	MaxHead = maxHead
)
