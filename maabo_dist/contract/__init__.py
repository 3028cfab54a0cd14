"""The contract between processes: names, the job document, messages, records, responses and problem documents."""
