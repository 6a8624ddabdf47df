package event

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/croftdev/croft/internal/fault"
)

// AppendLine appends r to dst as one line: a JSON object with its keys sorted, no
// blanks, everything outside ASCII escaped, and a newline (cases EV-027, EV-028).
// What is absent is null. Text that is no UTF-8 gets U+FFFD for its bad bytes.
//
// It is written by hand because every operation pays for it twice.
func AppendLine(dst []byte, r *Record) []byte {
	finish := r.Phase == PhaseFinish
	dst = append(dst, `{"data":`...)
	dst = appendData(dst, r.Data)
	if finish {
		dst = append(dst, `,"duration_ms":`...)
		dst = appendFloat(dst, r.DurationMS)
		dst = append(dst, `,"error_code":`...)
		dst = appendOpt(dst, string(r.ErrorCode))
		dst = append(dst, `,"error_message":`...)
		dst = appendOpt(dst, r.ErrorMessage)
		dst = append(dst, `,"error_retryable":`...)
		dst = appendRetry(dst, r.ErrorRetryable)
		dst = append(dst, `,"error_type":`...)
		dst = appendOpt(dst, r.ErrorType)
	}
	dst = append(dst, `,"event_id":`...)
	dst = appendID(dst, r.EventID)
	if finish {
		dst = append(dst, `,"ok":`...)
		dst = strconv.AppendBool(dst, r.OK)
	}
	dst = append(dst, `,"op":`...)
	dst = appendString(dst, string(r.Op))
	dst = append(dst, `,"parent_span_id":`...)
	dst = appendOpt(dst, r.ParentSpanID)
	dst = append(dst, `,"phase":`...)
	dst = appendString(dst, string(r.Phase))
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, r.Seq, 10)
	dst = append(dst, `,"session_id":`...)
	dst = appendString(dst, r.SessionID)
	dst = append(dst, `,"span_id":`...)
	dst = appendString(dst, r.SpanID)
	if finish {
		dst = append(dst, `,"stderr":`...)
		dst = appendPtr(dst, r.Stderr)
		dst = append(dst, `,"stdout":`...)
		dst = appendPtr(dst, r.Stdout)
	}
	dst = append(dst, `,"trace_id":`...)
	dst = appendOpt(dst, r.TraceID)
	dst = append(dst, `,"ts":`...)
	dst = appendTime(dst, r.Time)
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, int64(r.Version), 10)
	return append(dst, "}\n"...)
}

const null = "null"

func appendData(dst []byte, d Data) []byte {
	dst = append(dst, '{')
	for i := range d {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, d[i].Key)
		dst = append(dst, ':')
		dst = appendValue(dst, d[i].Value)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v Value) []byte {
	switch v.kind {
	case kindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case kindInt:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case kindFloat:
		return appendFloat(dst, math.Float64frombits(v.num))
	case kindString:
		return appendString(dst, v.str)
	case kindStrings:
		list, _ := v.ext.([]string)
		dst = append(dst, '[')
		for i, s := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, s)
		}
		return append(dst, ']')
	case kindJSON:
		return appendJSON(dst, v.ext)
	default:
		return append(dst, null...)
	}
}

// appendJSON appends what [Decode] found under a key of the data.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return appendString(dst, v)
	case json.Number:
		return append(dst, v...)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, strings.Compare)
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, k)
			dst = append(dst, ':')
			dst = appendJSON(dst, v[k])
		}
		return append(dst, '}')
	default:
		return append(dst, null...)
	}
}

func appendOpt(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, null...)
	}
	return appendString(dst, s)
}

func appendPtr(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, null...)
	}
	return appendString(dst, *s)
}

func appendRetry(dst []byte, r fault.Retry) []byte {
	switch r {
	case fault.RetryYes:
		return append(dst, "true"...)
	case fault.RetryNo:
		return append(dst, "false"...)
	default:
		return append(dst, null...)
	}
}

func appendID(dst []byte, id uuid.UUID) []byte {
	if id == zeroID {
		return append(dst, null...)
	}
	var text [36]byte
	encodeUUID(&text, id)
	dst = append(dst, '"')
	dst = append(dst, text[:]...)
	return append(dst, '"')
}

// encodeUUID is [uuid.UUID.String] without its allocation.
func encodeUUID(dst *[36]byte, id uuid.UUID) {
	j := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst[j] = '-'
			j++
		}
		dst[j], dst[j+1] = hexDigits[b>>4], hexDigits[b&15]
		j += 2
	}
}

func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, null...)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

// appendFloat writes v so that it always looks like a fraction, 2 as 2.0: readers
// that guess a column's type from its first lines then guess the same everywhere.
func appendFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, null...)
	}
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	if !slices.Contains(dst[n:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string in ASCII (RFC 8259, section 7).
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	begin := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[begin:i]...)
		if c < utf8.RuneSelf {
			dst = appendEscape(dst, c)
			i++
		} else {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = appendRune(dst, r)
			i += size
		}
		begin = i
	}
	dst = append(dst, s[begin:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	default:
		return appendUnit(dst, uint16(c))
	}
}

func appendRune(dst []byte, r rune) []byte {
	if r < 0x10000 {
		return appendUnit(dst, uint16(r))
	}
	r -= 0x10000
	dst = appendUnit(dst, 0xd800+uint16(r>>10))
	return appendUnit(dst, 0xdc00+uint16(r&0x3ff))
}

func appendUnit(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
