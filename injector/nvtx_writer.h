// Gives what NVTX events refer to, domains and messages, the numbers of the wire, and hands all to
// the encoder. One owner thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "injector/intern_table.h"
#include "injector/nvtx_ring.h"
#include "injector/record_encoder.h"

namespace profiler::injector {

class NvtxWriter {
 public:
  // Copies of messages are forgotten, with their numbers, beyond this many bytes.
  static constexpr std::size_t kMaxTextBytes = 16 * 1024 * 1024;

  // `encoder` outlives the writer.
  explicit NvtxWriter(RecordEncoder& encoder) : encoder_(encoder) {}
  ~NvtxWriter() { forget_texts(); }
  NvtxWriter(const NvtxWriter&) = delete;
  NvtxWriter& operator=(const NvtxWriter&) = delete;

  // `text` is the record's own, `tid` the thread that wrote it.
  void write(const NvtxRecord& record, const char* text, std::uint64_t tid);

 private:
  struct DomainKey {
    std::uint32_t number;
    bool operator==(const DomainKey&) const = default;
    std::uint64_t hash() const { return mix_bits(number); }
  };
  struct TextKey {
    const char* bytes;
    std::size_t size;
    std::uint64_t text_hash;
    bool operator==(const TextKey& other) const;
    std::uint64_t hash() const { return text_hash; }
  };
  struct Nothing {};

  std::uint32_t domain_id(std::uint32_t number);
  std::uint32_t text_id(const char* bytes, std::size_t size, std::uint64_t hash);
  std::uint32_t message_id(const NvtxRecord& record, const char* text);
  void forget_texts();

  RecordEncoder& encoder_;
  InternTable<DomainKey, Nothing> domains_;
  InternTable<TextKey, Nothing> texts_;
  std::size_t text_bytes_ = 0;
};

}  // namespace profiler::injector
