// The encoder must write what libprotobuf writes: for random messages of both formats, and at the
// edges of lengths and of the buffer.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/encoder.h"
#include "proto/perfetto_trace.pb.h"
#include "proto/wire.pb.h"
#include "tests/catch.h"

namespace profiler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using proto::Encoder;
using Random = std::mt19937_64;

std::uint64_t pick(Random& random, std::uint64_t below) {
  return random() % below;
}

// All magnitudes, with the edges of the varint lengths among them.
std::uint64_t random_number(Random& random) {
  const std::uint64_t bits = pick(random, 65);
  if (bits == 0) return 0;
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  switch (pick(random, 3)) {
    case 0:
      return top;
    case 1:
      return top - 1;
    default:
      return top | (random() & (top - 1));
  }
}

std::string random_text(Random& random) {
  static constexpr std::size_t kLengths[] = {0, 1, 5, 40, 127, 128, 300, 16383, 16384};
  const std::size_t length = kLengths[pick(random, 100) < 95 ? pick(random, 5) : pick(random, 9)];
  std::string text(length, '\0');
  for (char& c : text) c = static_cast<char>(pick(random, 128));
  return text;
}

void set_random(Message& message, const FieldDescriptor* field, Random& random);

void fill(Message& message, Random& random, int depth) {
  const Descriptor* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && depth == 0) continue;
    if (pick(random, 2) == 0) continue;
    const std::uint64_t count = field->is_repeated() ? pick(random, 4) : 1;
    for (std::uint64_t n = 0; n < count; ++n) {
      if (!is_message) {
        set_random(message, field, random);
        continue;
      }
      const Reflection* reflection = message.GetReflection();
      fill(*(field->is_repeated() ? reflection->AddMessage(&message, field)
                                  : reflection->MutableMessage(&message, field)),
           random, depth - 1);
    }
  }
}

#define PROFILER_SET(TYPE, value)                                       \
  (field->is_repeated() ? reflection->Add##TYPE(&message, field, value) \
                        : reflection->Set##TYPE(&message, field, value))

void set_random(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection* reflection = message.GetReflection();
  const std::uint64_t number = random_number(random);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return PROFILER_SET(UInt32, static_cast<std::uint32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return PROFILER_SET(UInt64, number);
    case FieldDescriptor::CPPTYPE_INT32:
      return PROFILER_SET(Int32, static_cast<std::int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return PROFILER_SET(Int64, static_cast<std::int64_t>(number));
    case FieldDescriptor::CPPTYPE_BOOL:
      return PROFILER_SET(Bool, (number & 1) != 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return PROFILER_SET(Double, static_cast<double>(number) / 3);
    case FieldDescriptor::CPPTYPE_STRING:
      return PROFILER_SET(String, random_text(random));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* type = field->enum_type();
      const auto index = pick(random, static_cast<std::uint64_t>(type->value_count()));
      return PROFILER_SET(Enum, type->value(static_cast<int>(index)));
    }
    default:
      FAIL("the formats hold no field of type " << field->type_name());
  }
}
#undef PROFILER_SET

void encode(const Message& message, Encoder& encoder);

#define PROFILER_GET(TYPE)                                                     \
  (field->is_repeated() ? reflection->GetRepeated##TYPE(message, field, index) \
                        : reflection->Get##TYPE(message, field))

void encode_field(const Message& message, const FieldDescriptor* field, int index,
                  Encoder& encoder) {
  const Reflection* reflection = message.GetReflection();
  const auto number = static_cast<std::uint32_t>(field->number());
  switch (field->type()) {
    case FieldDescriptor::TYPE_UINT32:
      return encoder.field_varint(number, PROFILER_GET(UInt32));
    case FieldDescriptor::TYPE_UINT64:
      return encoder.field_varint(number, PROFILER_GET(UInt64));
    case FieldDescriptor::TYPE_INT32:
      return encoder.field_varint(number,
                                  static_cast<std::uint64_t>(std::int64_t{PROFILER_GET(Int32)}));
    case FieldDescriptor::TYPE_INT64:
      return encoder.field_varint(number, static_cast<std::uint64_t>(PROFILER_GET(Int64)));
    case FieldDescriptor::TYPE_SINT32:
      return encoder.field_signed(number, PROFILER_GET(Int32));
    case FieldDescriptor::TYPE_SINT64:
      return encoder.field_signed(number, PROFILER_GET(Int64));
    case FieldDescriptor::TYPE_FIXED64:
      return encoder.field_fixed64(number, PROFILER_GET(UInt64));
    case FieldDescriptor::TYPE_BOOL:
      return encoder.field_bool(number, PROFILER_GET(Bool));
    case FieldDescriptor::TYPE_DOUBLE:
      return encoder.field_double(number, PROFILER_GET(Double));
    case FieldDescriptor::TYPE_ENUM:
      return encoder.field_varint(number, static_cast<std::uint64_t>(PROFILER_GET(Enum)->number()));
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES: {
      const std::string text = PROFILER_GET(String);
      return encoder.field_bytes(number, text.data(), text.size());
    }
    case FieldDescriptor::TYPE_MESSAGE: {
      const std::size_t body = encoder.open(number);
      encode(PROFILER_GET(Message), encoder);
      return encoder.close(body);
    }
    default:
      FAIL("the formats hold no field of type " << field->type_name());
  }
}
#undef PROFILER_GET

// In order of field numbers, as libprotobuf writes.
void encode(const Message& message, Encoder& encoder) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!field->is_repeated()) {
      encode_field(message, field, 0, encoder);
      continue;
    }
    const int count = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < count; ++i) encode_field(message, field, i, encoder);
  }
}

std::string encoded(const Message& message) {
  std::vector<char> buffer(message.ByteSizeLong() + 64);
  Encoder encoder(buffer.data(), buffer.size());
  encode(message, encoder);
  REQUIRE(encoder.ok());
  return {reinterpret_cast<const char*>(encoder.data()), encoder.size()};
}

template <typename T>
void compare_random_messages(std::uint64_t seed, int count) {
  Random random(seed);
  std::size_t longest = 0;
  for (int i = 0; i < count; ++i) {
    T message;
    fill(message, random, 5);
    const std::string expected = message.SerializeAsString();
    const bool equal = encoded(message) == expected;  // not printed: they are long and binary
    INFO("message " << i << " of seed " << seed);
    REQUIRE(equal);
    longest = std::max(longest, expected.size());
  }
  CHECK(longest > 16384);
}

TEST_CASE("the encoder writes what libprotobuf writes") {
  SECTION("the wire") {
    compare_random_messages<wire::Frame>(1, 400);
  }
  SECTION("the trace") {
    compare_random_messages<perfetto::protos::Trace>(2, 400);
  }
  SECTION("an announcement") {
    wire::Announcement message;
    message.set_wire_version(1);
    message.set_pid(4242);
    message.set_pipe("4242-17.pipe");
    message.set_start_ticks(std::numeric_limits<std::uint64_t>::max());
    CHECK(encoded(message) == message.SerializeAsString());
  }
}

TEST_CASE("nested messages of every length of length") {
  for (const std::size_t size : {0U, 1U, 100U, 123U, 124U, 125U, 126U, 127U, 128U, 129U, 130U,
                                 16370U, 16380U, 16381U, 16384U, 16390U, 2097152U, 3000000U}) {
    wire::Frame frame;
    frame.mutable_hello()->add_environment()->set_value(std::string(size, 'x'));
    frame.mutable_hello()->set_failure("after");
    const bool equal = encoded(frame) == frame.SerializeAsString();
    INFO(size << " bytes");
    CHECK(equal);
  }
}

TEST_CASE("a message read back has no unknown fields and the same content") {
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    wire::Frame frame;
    fill(frame, random, 4);
    wire::Frame read;
    REQUIRE(read.ParseFromString(encoded(frame)));
    const bool equal = read.SerializeAsString() == frame.SerializeAsString();
    REQUIRE(equal);
  }
}

TEST_CASE("zigzag and varint sizes at their edges") {
  CHECK(proto::zigzag(0) == 0);
  CHECK(proto::zigzag(-1) == 1);
  CHECK(proto::zigzag(1) == 2);
  CHECK(proto::zigzag(std::numeric_limits<std::int64_t>::max()) ==
        std::numeric_limits<std::uint64_t>::max() - 1);
  CHECK(proto::zigzag(std::numeric_limits<std::int64_t>::min()) ==
        std::numeric_limits<std::uint64_t>::max());
  CHECK(proto::varint_size(0) == 1);
  CHECK(proto::varint_size(127) == 1);
  CHECK(proto::varint_size(128) == 2);
  CHECK(proto::varint_size(std::numeric_limits<std::uint64_t>::max()) == 10);
}

TEST_CASE("a full buffer stops the encoder, and nothing is written past it") {
  wire::Frame frame;
  Random random(4);
  while (frame.ByteSizeLong() < 400 || frame.ByteSizeLong() > 4000) {
    frame.Clear();
    fill(frame, random, 4);
  }
  const std::string expected = frame.SerializeAsString();
  for (std::size_t capacity = 0; capacity <= expected.size(); ++capacity) {
    std::vector<char> buffer(capacity + 16, '\x5A');
    Encoder encoder(buffer.data(), capacity);
    encode(frame, encoder);
    const bool fits = capacity == expected.size();
    INFO("capacity " << capacity << " of " << expected.size());
    REQUIRE(encoder.ok() == fits);
    REQUIRE(encoder.size() <= capacity);
    const bool untouched = std::string(buffer.end() - 16, buffer.end()) == std::string(16, '\x5A');
    REQUIRE(untouched);
  }
}

TEST_CASE("rewind takes back what did not fit, and the encoder goes on") {
  char buffer[32];
  Encoder encoder(buffer, sizeof buffer);
  encoder.field_varint(1, 300);
  const std::size_t before = encoder.size();

  const std::size_t body = encoder.open(2);
  encoder.field_string(1, "much too long for a buffer of 32 bytes");
  encoder.close(body);
  REQUIRE_FALSE(encoder.ok());
  encoder.field_varint(3, 1);
  CHECK_FALSE(encoder.ok());  // for good, even where a short field would have fitted

  encoder.rewind(before);
  CHECK(encoder.ok());
  encoder.field_varint(3, 1);
  CHECK(encoder.ok());
  CHECK(std::string(buffer, encoder.size()) == std::string("\x08\xAC\x02\x18\x01", 5));
}

TEST_CASE("a length that needs more room than there is fails when it is closed") {
  std::vector<char> buffer(2 + 128);
  Encoder encoder(buffer.data(), buffer.size());
  const std::size_t body = encoder.open(1);
  const std::string text(126, 'x');
  encoder.field_bytes(1, text.data(), text.size());
  REQUIRE(encoder.ok());  // 128 bytes of body, and no room for the second byte of their length
  encoder.close(body);
  CHECK_FALSE(encoder.ok());
}

}  // namespace
}  // namespace profiler
