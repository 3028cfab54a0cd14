"""From results to what people and programs read: the document, the terminal report and the exports."""
